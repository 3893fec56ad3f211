# Years whose highest level was above a height: Rscript nivel.R niveis-anuais.csv 480

words <- commandArgs(trailingOnly = TRUE)
levels <- read.csv(words[1])
above <- levels[levels$maior_cm > as.integer(words[2]), c("ano", "maior_cm")]
print(above, row.names = FALSE)

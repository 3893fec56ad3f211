-- The databases of compose.scale.yaml: one for the resolver, one for the Archive. PostgreSQL reads this when it is made.
CREATE DATABASE resolver;
CREATE DATABASE archive;

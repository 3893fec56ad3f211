// Reads persistent URLs with citation.js, as its users do, and prints a line of JSON for each:
// `node cite.js URL ...`, with its packages in NODE_PATH.
'use strict'

const { Cite, util } = require('@citation-js/core')
require('@citation-js/plugin-bibtex')
require('@citation-js/plugin-csl')
require('@citation-js/plugin-doi')
require('@citation-js/plugin-ris')

const BY_TYPE = { bibtex: 'application/x-bibtex', ris: 'application/x-research-info-systems' }

async function read (url) {
  // The plugin for DOIs asks for CSL JSON, and refuses an answer of another type.
  const read = { csl: await Cite.async(url, { forceType: '@doi/api' }) }
  for (const [name, type] of Object.entries(BY_TYPE)) {
    const text = await util.fetchFileAsync(url, { checkContentType: true, headers: { Accept: type } })
    read[name] = await Cite.async(text)
  }
  const all = {}
  for (const [name, cite] of Object.entries(read)) {
    const apa = cite.format('bibliography', { format: 'text', template: 'apa', lang: 'en-US' })
    all[name] = { apa, item: cite.data[0] }
  }
  return all
}

async function main () {
  for (const url of process.argv.slice(2)) {
    console.log(JSON.stringify(await read(url)))
  }
}

main().catch(error => {
  console.error(error.message)
  process.exitCode = 1
})

// Run one verb of the official cache client; print its result as one line of JSON.
import * as cache from '@actions/cache'

const [verb, key, path, ...restoreKeys] = process.argv.slice(2)
const verbs = {
  save: () => cache.saveCache([path], key),
  restore: async () => (await cache.restoreCache([path], key, restoreKeys)) ?? null
}

try {
  console.log('RESULT ' + JSON.stringify({ result: await verbs[verb]() }))
} catch (error) {
  console.log('RESULT ' + JSON.stringify({ error: String(error.message) }))
}

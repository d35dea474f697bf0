// Run one verb of the official artifact client; print its result as one line of JSON.
import artifact from '@actions/artifact'

const [verb, ...words] = process.argv.slice(2)
const verbs = {
  upload: (name, root, days, ...files) =>
    artifact.uploadArtifact(name, files, root, {
      ...(days !== '0' && { retentionDays: Number(days) })
    }),
  uploadFile: (root, file) =>
    artifact.uploadArtifact('ignored', [file], root, { skipArchive: true }),
  list: () => artifact.listArtifacts(),
  get: name => artifact.getArtifact(name),
  download: (id, path, hash) => artifact.downloadArtifact(Number(id), { path, expectedHash: hash }),
  delete: name => artifact.deleteArtifact(name)
}

try {
  const result = await verbs[verb](...words)
  console.log('RESULT ' + JSON.stringify({ result }))
} catch (error) {
  console.log('RESULT ' + JSON.stringify({ error: String(error.message) }))
}

// Calls methods with the HTTP/2 client of Node.js: client.mjs ADDRESS. The standard input has the calls and the settings as JSON. It prints a
// line "PATH STATUS" for each call.
import { readFileSync } from 'node:fs';
import { connect } from 'node:http2';

const job = JSON.parse(readFileSync(0));
const names = {
  header_table_size: 'headerTableSize', initial_window_size: 'initialWindowSize', max_frame_size: 'maxFrameSize', max_header_list_size: 'maxHeaderListSize',
};
const settings = Object.fromEntries(Object.entries(job.settings).map(([name, value]) => [names[name], value]));
const client = connect(`http://${process.argv[2]}`, { settings });
client.on('error', (error) => { console.log('connection', error.message); process.exit(1); });

function call(path, message) {
  return new Promise((resolve) => {
    const body = Buffer.concat([Buffer.alloc(1), Buffer.alloc(4), Buffer.from(message, 'hex')]);
    body.writeUInt32BE(body.length - 5, 1);
    const stream = client.request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers', tracestate: 'x'.repeat(33000) });
    let status = 'none';
    stream.on('response', (headers) => { status = headers['grpc-status'] ?? status; });
    stream.on('trailers', (headers) => { status = headers['grpc-status'] ?? status; });
    stream.on('data', () => {});
    stream.on('error', (error) => resolve(error.message));
    stream.on('close', () => resolve(status));
    stream.end(body);
  });
}

for (const [path, message] of job.calls) {
  let status;
  for (let turn = 0; turn < 3; turn++) {
    const answer = call(path, message);
    if ((job.settings.initial_window_size ?? 65535) < 1000 && turn === 0) {
      setTimeout(() => { if (!client.closed && !client.destroyed) client.settings({ initialWindowSize: 65535 }); }, 50); // the response waits for it
    }
    if (turn === 1) client.settings({ headerTableSize: 100 });
    status = await answer;
  }
  console.log(path, status);
}
client.close();

// Drives brokers by the admin API, with what Node.js has: `node admin_api.mjs URL`.
const url = `${process.argv[2]}/admin/v1/`;

async function send(path, options) {
  const answer = await fetch(url + path, options);
  console.log(answer.status, await answer.text());
}

const get = (path) => send(path);

const post = (path, fields) =>
  send(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(fields),
  });

await post("topics", { name: "t", replication_factor: 2 });
await post("topics/t/records", { records: [{ key: "k", value: "é" }] });
await get("topics/t/records");
await post("brokers/1/kill", { expire: true });
await post("brokers/1/start");
await post("brokers/1/stop", { now: true });
await get("groups/nosuch");

// A client of Odradek's admin API, for tests that `odradek run` starts.
import assert from "node:assert/strict";
import { Kafka, logLevel } from "kafkajs";

/** Sends a request to the admin API; throws if it is refused. */
export async function ask(method, path, fields) {
  const response = await fetch(`${process.env.ODRADEK_ADMIN_URL}/admin/v1/${path}`, {
    method,
    headers: { "Content-Type": "application/json" },
    body: method === "POST" ? JSON.stringify(fields ?? {}) : undefined,
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(`${method} ${path}: ${answer.error}`);
  return answer;
}

/** Makes a topic with one partition. */
export async function newTopic(name, fields = {}) {
  await ask("POST", "topics", { name, ...fields });
  return name;
}

/** Adds a rule that must act before the test ends. */
export async function addFault(test, rule) {
  const { id } = await ask("POST", "faults", rule);
  test.after(async () => {
    const { hits } = await ask("GET", `faults/${id}`);
    await ask("DELETE", `faults/${id}`);
    assert.ok(hits > 0, `the rule ${JSON.stringify(rule)} never acted`);
  });
}

/** The values of a topic. */
export async function values(topic) {
  const { records } = await ask("GET", `topics/${topic}/records`);
  return records.map((record) => record.value);
}

/** How many requests of an API a client has sent. */
export async function requests(api, clientId) {
  const query = new URLSearchParams({ api, client_id: clientId });
  return (await ask("GET", `journal?${query}`)).requests.length;
}

/** A client that waits little before it tries again. */
export function kafka(clientId) {
  return new Kafka({
    clientId,
    brokers: process.env.KAFKA_BOOTSTRAP_SERVERS.split(","),
    logLevel: logLevel.NOTHING,
    retry: { initialRetryTime: 20, maxRetryTime: 200, retries: 8 },
  });
}

/** A producer until the end of the test. */
export async function newProducer(test, clientId, options = {}) {
  const producer = kafka(clientId).producer(options);
  await producer.connect();
  test.after(() => producer.disconnect());
  return producer;
}

/** Reads so many values as the only member of a group, and commits them. */
export async function consume(clientId, topic, count, during = async () => {}) {
  const consumer = kafka(clientId).consumer({ groupId: clientId, heartbeatInterval: 100 });
  const found = [];
  let enough;
  const all = new Promise((resolve) => (enough = resolve));
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({
    eachMessage: async ({ message }) => {
      found.push(message.value.toString());
      if (found.length >= count) enough();
    },
  });
  await all;
  await during(consumer);
  await consumer.disconnect();
  return found;
}

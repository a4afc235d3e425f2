// What a client does if a broker fails: `odradek run -- npm test`.
import assert from "node:assert/strict";
import { test } from "node:test";
import { addFault, ask, consume, newProducer, newTopic, requests, values } from "./odradek.mjs";

const send = (producer, topic) => producer.send({ topic, messages: [{ value: "order" }] });

test("a new leader is found", async (t) => {
  const topic = await newTopic("node-leader");
  await addFault(t, { api: "Produce", topic, times: 2, error: "NOT_LEADER_OR_FOLLOWER" });
  await send(await newProducer(t, topic), topic);
  assert.deepEqual(await values(topic), ["order"]);
  assert.equal(await requests("Produce", topic), 3);
});

test("a lost answer makes a duplicate", async (t) => {
  const topic = await newTopic("node-duplicate");
  await addFault(t, { api: "Produce", topic, times: 1, drop_response: true });
  await send(await newProducer(t, topic), topic);
  assert.deepEqual(await values(topic), ["order", "order"]);
});

test("a producer without the right is told at once", async (t) => {
  const topic = await newTopic("node-right");
  await addFault(t, { api: "Produce", topic, error: "TOPIC_AUTHORIZATION_FAILED" });
  const producer = await newProducer(t, topic);
  await assert.rejects(send(producer, topic), { type: "TOPIC_AUTHORIZATION_FAILED" });
  assert.equal(await requests("Produce", topic), 1);
});

test("a member joins again for a rebalance", async (t) => {
  const topic = await newTopic("node-rebalance");
  await send(await newProducer(t, topic), topic);
  await consume(topic, topic, 1, async () => {
    const before = await requests("JoinGroup", topic);
    await addFault(t, { api: "Heartbeat", group: topic, times: 1, error: "REBALANCE_IN_PROGRESS" });
    await ask("POST", `topics/${topic}/records`, { records: [{ value: "wakes it" }] });
    const deadline = Date.now() + 20_000;
    while ((await requests("JoinGroup", topic)) === before) assert.ok(Date.now() < deadline);
  });
});

// KafkaJS in situations: node situations.cjs SERVERS ADMIN_URL. Each line of stdin is a deed and rules as JSON, parted
// by tabs. Prints a line for each: "done", or "failed" with Kafka's error code or the name of an error.

const readline = require('node:readline')
const { Kafka, logLevel } = require('kafkajs')

const VALUES = ['0', '1', '2']
const TIMEOUT_MS = 20_000
const [servers, adminUrl] = process.argv.slice(2)

const kafka = () => new Kafka({
  brokers: [servers],
  logLevel: logLevel.NOTHING,
  requestTimeout: 3000,
  retry: { initialRetryTime: 20, maxRetryTime: 200, retries: 8 },
})

const addRule = async rule => {
  const headers = { 'Content-Type': 'application/json' }
  const answer = await fetch(`${adminUrl}/admin/v1/faults`, { method: 'POST', headers, body: rule })
  if (answer.status !== 201) throw new Error(await answer.text())
}

// Writes one after another: the first failure ends it.
const write = async sender => {
  for (const value of VALUES) await sender.send({ topic: 't', acks: -1, messages: [{ value }] })
}

const produce = async (idempotent = false) => {
  const producer = kafka().producer({ idempotent, maxInFlightRequests: 1 })
  try {
    await producer.connect()
    await write(producer)
  } finally {
    await producer.disconnect()
  }
  return 'done'
}

const transact = async () => {
  const producer = kafka().producer({ transactionalId: 'x', idempotent: true, maxInFlightRequests: 1 })
  try {
    await producer.connect()
    const transaction = await producer.transaction()
    await write(transaction)
    await transaction.commit()
  } finally {
    await producer.disconnect()
  }
  return 'done'
}

const consume = async () => {
  const consumer = kafka().consumer({ groupId: 'g', sessionTimeout: 6000, maxWaitTimeInMs: 200 })
  const found = []
  try {
    await consumer.connect()
    await consumer.subscribe({ topic: 't', fromBeginning: true })
    await new Promise((resolve, reject) => {
      setTimeout(() => reject(Object.assign(new Error(), { name: 'Timeout' })), TIMEOUT_MS).unref()
      // After most crashes the consumer starts again by itself.
      consumer.on(consumer.events.CRASH, ({ payload }) => payload.restart || reject(payload.error))
      consumer.run({
        autoCommit: false,
        eachMessage: async ({ message }) => found.push(message.value.toString()) === VALUES.length && resolve(),
      }).catch(reject)
    })
    await consumer.commitOffsets([{ topic: 't', partition: 0, offset: '3' }])
  } finally {
    await consumer.disconnect()
  }
  return ['done', ...found].join(' ')
}

const deeds = { produce, idempotent: () => produce(true), transact, consume }

// An error that was tried again too often contains the last one.
const codeOf = error => {
  for (let each = error; each; each = each.cause) if (each.code > 0) return each.code
  return error.name
}

const main = async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [deed, ...rules] = line.split('\t')
    for (const rule of rules) await addRule(rule)
    const outcome = await deeds[deed]().catch(error => {
      console.error(error)
      return `failed ${codeOf(error)}`
    })
    console.log(outcome)
  }
}

main()

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * write|read|member SPEC: a verifiable writer, a reader of a whole topic, or a member of a group. The Python files of
 * tests/lab/verify that do the same with other clients say what the JSON object SPEC holds and what is noted.
 * Writers and members end when stdin does.
 */
public final class Verify {
    private static final int BLOCK_CHARS = 30_000;
    private static final long TELL_MS = 100;

    private static volatile boolean stopped;

    private final JsonNode told;
    private final String topic;
    private final int partitions;
    private final Notes notes;

    private Verify(JsonNode told) throws IOException {
        this.told = told;
        topic = told.get("topic").asText();
        partitions = told.get("partitions").asInt();
        notes = new Notes(told.get("history").asText());
    }

    public static void main(String[] arguments) throws Exception {
        Locale.setDefault(Locale.ROOT);
        Verify verify = new Verify(new ObjectMapper().readTree(arguments[1]));
        Thread listener = new Thread(Verify::listen);
        listener.setDaemon(true);
        listener.start();
        switch (arguments[0]) {
            case "write" -> verify.new Writer().run();
            case "read" -> verify.readAll();
            case "member" -> verify.new Member().run();
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    private static void listen() {
        try {
            while (System.in.read() >= 0) {
                continue;
            }
        } catch (IOException error) {
            // As good as its end.
        }
        stopped = true;
    }

    private Map<String, Object> config() {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", told.get("servers").asText());
        told.get("settings").properties().forEach(e -> config.put(e.getKey(), e.getValue().asText()));
        return config;
    }

    private List<TopicPartition> allPartitions() {
        List<TopicPartition> all = new ArrayList<>();
        for (int partition = 0; partition < partitions; partition++) {
            all.add(new TopicPartition(topic, partition));
        }
        return all;
    }

    /** Wall time in seconds, to the millisecond. */
    private static String now() {
        return String.format("%.3f", System.currentTimeMillis() / 1000.0);
    }

    /** Lines on their way into the history, appended in blocks of whole ones. */
    private static final class Notes {
        private final FileOutputStream file;
        private final StringBuilder lines = new StringBuilder();

        Notes(String path) throws IOException {
            file = new FileOutputStream(path, true);
        }

        synchronized void note(String format, Object... values) {
            lines.append(String.format(format, values)).append('\n');
            if (lines.length() > BLOCK_CHARS) {
                flush();
            }
        }

        void fatal(String who, Throwable error) {
            note("[\"fatal\",\"%s\",\"%s\",%s]", who, error.toString().replaceAll("[^ -~]|[\"\\\\]", " "), now());
        }

        synchronized void flush() {
            try {
                file.write(lines.toString().getBytes(StandardCharsets.UTF_8));
            } catch (IOException error) {
                error.printStackTrace();
                Runtime.getRuntime().halt(3);
            }
            lines.setLength(0);
        }
    }

    private final class Writer {
        private final String name = told.get("writer").asText();
        private final int[] numbers = new int[partitions];
        private int epoch;
        private long sent;
        private long acked;
        private long failed;
        private boolean dead;

        void run() throws Exception {
            notes.note("[\"writer\",\"%s\",\"%s\",%s,%s]", name, told.get("acks").asText(),
                    told.get("idempotent").asBoolean(), now());
            KafkaProducer<byte[], byte[]> producer = connect();
            double perMs = told.get("rate").asDouble() / 1000;
            double begin = System.nanoTime() / 1e6;
            double toldAt = begin;
            while (!stopped) {
                double now = System.nanoTime() / 1e6;
                long due = (long) ((now - begin) * perMs) - sent;
                long room = told.get("in_flight").asLong() - inFlight();
                if (due > room) {
                    begin += (due - room) / perMs;
                }
                for (long i = Math.min(due, room); i > 0; i--) {
                    send(producer);
                }
                if (isDead()) {
                    producer.close(Duration.ZERO);
                    producer = connect();
                    epoch++;
                    Arrays.fill(numbers, 0);
                }
                if (now - toldAt > TELL_MS) {
                    toldAt = now;
                    tell();
                }
                Thread.sleep(5);
            }
            producer.close();
            notes.note("[\"closed\",\"%s\",%s]", name, now());
            tell();
        }

        private synchronized KafkaProducer<byte[], byte[]> connect() {
            dead = false;
            return new KafkaProducer<>(config(), new ByteArraySerializer(), new ByteArraySerializer());
        }

        private void send(KafkaProducer<byte[], byte[]> producer) {
            int partition = (int) (sent++ % numbers.length);
            int number = numbers[partition]++;
            String value = String.format("%s %d %d %d", name, partition, number, epoch);
            byte[] data = Arrays.copyOf(value.getBytes(StandardCharsets.UTF_8),
                    Math.max(value.length(), told.get("record_bytes").asInt()));
            Arrays.fill(data, value.length(), data.length, (byte) ' ');
            String head = String.format("[\"sent\",\"%s\",%d,%d,%d,", name, partition, number, epoch);
            String sentAt = now();
            long began = System.nanoTime();
            producer.send(new ProducerRecord<>(topic, partition, null, data), (at, error) -> {
                long offset = error == null && at.hasOffset() ? at.offset() : -1;
                double took = (System.nanoTime() - began) / 1e9;
                answered(error);
                notes.note("%s%d,%d,%s,%.4f]", head, code(error), offset, sentAt, took);
            });
        }

        private synchronized void answered(Exception error) {
            if (error == null) {
                acked++;
            } else {
                failed++;
            }
            if (!dead && (error instanceof ProducerFencedException || error instanceof AuthorizationException
                    || error instanceof UnsupportedVersionException)) {
                notes.fatal(name, error);
                dead = true;
            }
        }

        private static int code(Exception error) {
            if (error == null) {
                return 0;
            }
            return error instanceof ApiException ? Errors.forException(error).code() : -1;
        }

        private synchronized boolean isDead() {
            return dead;
        }

        private synchronized long inFlight() {
            return sent - acked - failed;
        }

        private synchronized void tell() {
            notes.flush();
            System.out.printf("{\"sent\":%d,\"acked\":%d,\"failed\":%d,\"in_flight\":%d}%n", sent, acked, failed,
                    sent - acked - failed);
        }
    }

    /** Notes records; those in a row as one line. */
    private void noteRead(String reader, TopicPartition from, List<ConsumerRecord<byte[], byte[]>> records) {
        String now = now();
        String[] first = null;
        long offset = -1;
        long number = 0;
        int count = 0;
        for (ConsumerRecord<byte[], byte[]> record : records) {
            String[] value = new String(record.value(), StandardCharsets.UTF_8).strip().split(" ");
            if (Integer.parseInt(value[1]) != from.partition()) {
                throw new IllegalStateException(Arrays.toString(value) + " was found in " + from);
            }
            if (first != null && record.offset() == offset + count && value[0].equals(first[0])
                    && value[3].equals(first[3]) && Long.parseLong(value[2]) == number + count) {
                count++;
                continue;
            }
            if (first != null) {
                noteRun(reader, from, offset, first, count, now);
            }
            first = value;
            offset = record.offset();
            number = Long.parseLong(value[2]);
            count = 1;
        }
        if (first != null) {
            noteRun(reader, from, offset, first, count, now);
        }
    }

    private void noteRun(String reader, TopicPartition from, long offset, String[] first, int count, String now) {
        notes.note("[\"read\",\"%s\",%d,%d,\"%s\",%s,%s,%d,%s]", reader, from.partition(), offset, first[0], first[2],
                first[3], count, now);
    }

    private void readAll() {
        String name = told.get("reader").asText();
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(config(), new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> all = allPartitions();
            Map<TopicPartition, Long> firsts = consumer.beginningOffsets(all);
            Map<TopicPartition, Long> ends = consumer.endOffsets(all);
            consumer.assign(all);
            firsts.forEach(consumer::seek);
            long deadline = System.nanoTime() + 30_000_000_000L;
            while (ends.keySet().stream().anyMatch(p -> consumer.position(p) < ends.get(p))) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
                for (TopicPartition partition : records.partitions()) {
                    noteRead(name, partition, records.records(partition));
                    deadline = System.nanoTime() + 30_000_000_000L;
                }
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("nothing more is delivered; ends are " + ends);
                }
            }
            ends.forEach((p, end) -> notes.note("[\"span\",\"%s\",%d,%d,%d,%s]", name, p.partition(), firsts.get(p),
                    end, now()));
        }
        notes.note("[\"closed\",\"%s\",%s]", name, now());
        notes.flush();
    }

    private final class Member implements ConsumerRebalanceListener {
        private final String name = told.get("member").asText();
        private final String group = told.get("group").asText();
        private final Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
        private final KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(config(), new ByteArrayDeserializer(), new ByteArrayDeserializer());
        private long polled;
        private long commits;

        void run() {
            try {
                consume();
                commit();
            } catch (KafkaException error) {
                notes.fatal(name, error);
                notes.flush();
                throw error;
            }
            consumer.close();
            notes.note("[\"closed\",\"%s\",%s]", name, now());
            tell();
        }

        private void consume() {
            consumer.subscribe(List.of(topic), this);
            long committedAt = System.nanoTime();
            while (!stopped) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
                for (TopicPartition partition : records.partitions()) {
                    List<ConsumerRecord<byte[], byte[]>> found = records.records(partition);
                    noteRead(name, partition, found);
                    polled += found.size();
                    positions.put(partition, new OffsetAndMetadata(found.get(found.size() - 1).offset() + 1));
                }
                if (System.nanoTime() - committedAt > told.get("commit_ms").asLong() * 1_000_000) {
                    commit();
                    committedAt = System.nanoTime();
                    tell();
                }
            }
        }

        private void commit() {
            if (positions.isEmpty()) {
                return;
            }
            Map<TopicPartition, OffsetAndMetadata> wanted = Map.copyOf(positions);
            String asked = now();
            try {
                consumer.commitSync(wanted);
            } catch (CommitFailedException | RetriableException error) {
                return; // Whoever owns the partitions next begins where an earlier commit says.
            }
            commits++;
            wanted.forEach((p, at) -> {
                notes.note("[\"committed\",\"%s\",\"%s\",%d,%d,%s,%s]", name, group, p.partition(), at.offset(), asked,
                        now());
                positions.remove(p, at);
            });
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> gone) {
            commit();
            positions.keySet().removeAll(gone);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> gone) {
            positions.keySet().removeAll(gone);
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> mine) {
            Set<TopicPartition> fresh = new HashSet<>(mine);
            String asked = now();
            consumer.committed(fresh).forEach((p, at) -> notes.note("[\"owns\",\"%s\",\"%s\",%d,%d,%s,%s]", name,
                    group, p.partition(), at == null ? -1 : at.offset(), asked, now()));
        }

        private void tell() {
            notes.flush();
            System.out.printf("{\"polled\":%d,\"commits\":%d}%n", polled, commits);
        }
    }
}

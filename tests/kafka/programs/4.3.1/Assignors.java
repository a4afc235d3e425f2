import com.dynatrace.hash4j.hashing.Hashing;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.BiFunction;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage.TopicMetadata;
import org.apache.kafka.coordinator.group.Utils;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Runs Kafka's own assignors and hashes on lines of stdin, one line of answer each.
 *
 * <p>assign TAB uniform|range TAB TOPIC:COUNT,... TAB MEMBER;INSTANCE;TOPIC,...;TOPIC:P.P,... TAB ...
 * prints MEMBER;TOPIC:P.P,... TAB ... Topics are small numbers: then Kafka's hash sets hold them in
 * their order. No instance is "-".
 *
 * <p>hash TAB BASE64 prints the XXH3 of bytes; group-hash TAB NAME=HASH,... Kafka's hash of
 * topics, and topic-hash TAB NAME TAB HALF TAB HALF TAB RACK,...;RACK,... that of one.
 */
public final class Assignors {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t", -1);
            switch (parts[0]) {
                case "assign" -> System.out.println(assign(parts));
                case "hash" -> {
                    byte[] bytes = Base64.getDecoder().decode(parts[1]);
                    System.out.println(Hashing.xxh3_64().hashBytesToLong(bytes));
                }
                case "topic-hash" -> System.out.println(topicHash(parts));
                case "group-hash" -> System.out.println(groupHash(parts[1]));
                default -> throw new IllegalArgumentException(line);
            }
        }
    }

    private static long groupHash(String text) {
        Map<String, Long> hashes = new HashMap<>();
        for (String topic : pieces(text, ",")) {
            String[] pair = topic.split("=");
            hashes.put(pair[0], Long.parseLong(pair[1]));
        }
        return Utils.computeGroupHash(hashes);
    }

    private static long topicHash(String[] parts) {
        String[] racks = parts[4].split(";", -1);
        TopicMetadata topic = answering(TopicMetadata.class, (method, arguments) -> switch (method) {
            case "name" -> parts[1];
            case "id" -> new Uuid(Long.parseLong(parts[2]), Long.parseLong(parts[3]));
            case "partitionCount" -> racks.length;
            default -> new ArrayList<>(pieces(racks[(int) arguments[0]], ","));
        });
        return Utils.computeTopicHash(parts[1], answering(
                CoordinatorMetadataImage.class, (method, arguments) -> Optional.of(topic)));
    }

    private static <T> T answering(Class<T> type, BiFunction<String, Object[], Object> answer) {
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type},
                (proxy, method, arguments) -> answer.apply(method.getName(), arguments)));
    }

    private static String assign(String[] parts) throws Exception {
        Map<Uuid, Integer> counts = new HashMap<>();
        for (String topic : pieces(parts[2], ",")) {
            String[] pair = topic.split(":");
            counts.put(topicId(pair[0]), Integer.parseInt(pair[1]));
        }
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        Set<Set<Uuid>> wanted = new java.util.HashSet<>();
        for (int i = 3; i < parts.length; i++) {
            String[] fields = parts[i].split(";", -1);
            Set<Uuid> topics = new TreeSet<>();
            pieces(fields[2], ",").forEach(topic -> topics.add(topicId(topic)));
            Map<Uuid, Set<Integer>> assigned = new TreeMap<>();
            for (String topic : pieces(fields[3], ",")) {
                String[] pair = topic.split(":");
                Set<Integer> partitions = new TreeSet<>();
                pieces(pair[1], "\\.").forEach(p -> partitions.add(Integer.parseInt(p)));
                assigned.put(topicId(pair[0]), partitions);
                for (Integer partition : partitions) {
                    owners.computeIfAbsent(topicId(pair[0]), __ -> new HashMap<>())
                            .put(partition, fields[0]);
                }
            }
            wanted.add(topics);
            Optional<String> instance =
                    fields[1].equals("-") ? Optional.empty() : Optional.of(fields[1]);
            members.put(fields[0], new MemberSubscriptionAndAssignmentImpl(
                    Optional.empty(), instance, topics, new Assignment(assigned)));
        }
        SubscriptionType type = wanted.size() <= 1
                ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        ConsumerGroupPartitionAssignor assignor =
                parts[1].equals("range") ? new RangeAssignor() : new UniformAssignor();
        return text(assignor.assign(new GroupSpecImpl(members, type, owners), describer(counts)));
    }

    private static SubscribedTopicDescriber describer(Map<Uuid, Integer> counts) {
        return new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topicId) {
                return counts.getOrDefault(topicId, -1);
            }

            @Override
            public Set<String> racksForPartition(Uuid topicId, int partition) {
                return Set.of();
            }
        };
    }

    private static String text(GroupAssignment assignment) {
        TreeMap<String, MemberAssignment> members = new TreeMap<>(assignment.members());
        StringBuilder line = new StringBuilder();
        members.forEach((memberId, given) -> {
            line.append(line.length() == 0 ? "" : "\t").append(memberId).append(";");
            String separator = "";
            TreeMap<Uuid, Set<Integer>> sorted = new TreeMap<>(given.partitions());
            for (Map.Entry<Uuid, Set<Integer>> topic : sorted.entrySet()) {
                line.append(separator).append(topic.getKey().getLeastSignificantBits()).append(":");
                List<String> partitions =
                        topic.getValue().stream().sorted().map(String::valueOf).toList();
                line.append(String.join(".", partitions));
                separator = ",";
            }
        });
        return line.toString();
    }

    private static Uuid topicId(String number) {
        return new Uuid(0, Long.parseLong(number));
    }

    private static List<String> pieces(String text, String separator) {
        return text.isEmpty() ? List.of() : List.of(text.split(separator));
    }
}

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.admin.AdminUtils;
import org.apache.kafka.admin.BrokerMetadata;
import org.apache.kafka.common.requests.ApiError;

/**
 * Assigns replicas with Kafka's own AdminUtils: one line of answer for each line of stdin.
 *
 * <p>A line is BROKER[:RACK],... TAB PARTITIONS TAB FACTOR TAB START TAB FIRST, where -1 lets Kafka
 * draw a start. The answer is REPLICA.REPLICA,... in order of partition, or "error CODE MESSAGE" as
 * a response would say it.
 */
public final class Assignment {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder answers = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            answers.append(assign(line.split("\t", -1))).append('\n');
        }
        System.out.print(answers);
    }

    private static String assign(String[] parts) {
        List<BrokerMetadata> brokers = new ArrayList<>();
        for (String broker : parts[0].split(",")) {
            String[] words = broker.split(":");
            Optional<String> rack = words.length > 1 ? Optional.of(words[1]) : Optional.empty();
            brokers.add(new BrokerMetadata(Integer.parseInt(words[0]), rack));
        }
        try {
            return listed(
                    AdminUtils.assignReplicasToBrokers(
                            brokers,
                            Integer.parseInt(parts[1]),
                            Integer.parseInt(parts[2]),
                            Integer.parseInt(parts[3]),
                            Integer.parseInt(parts[4])));
        } catch (RuntimeException error) {
            ApiError answered = ApiError.fromThrowable(error);
            return "error " + answered.error().code() + " " + answered.message();
        }
    }

    private static String listed(Map<Integer, List<Integer>> assignment) {
        List<String> partitions = new ArrayList<>();
        for (List<Integer> replicas : new TreeMap<>(assignment).values()) {
            partitions.add(String.join(".", replicas.stream().map(String::valueOf).toList()));
        }
        return String.join(",", partitions);
    }
}

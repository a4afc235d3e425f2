import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** A producer that is refused twice: `java -cp JARS NewLeader.java URL SERVERS`; prints the rule at the end. */
public class NewLeader {
    public static void main(String[] arguments) throws Exception {
        var http = HttpClient.newHttpClient();
        var faults = URI.create(arguments[0] + "/admin/v1/faults");
        var rule = "{\"api\": \"Produce\", \"topic\": \"orders\", \"times\": 2, \"error\": \"NOT_LEADER_OR_FOLLOWER\"}";
        var add = HttpRequest.newBuilder(faults)
            .header("Content-Type", "application/json")
            .POST(BodyPublishers.ofString(rule));
        http.send(add.build(), BodyHandlers.ofString());
        var config = Map.<String, Object>of("bootstrap.servers", arguments[1]);
        try (var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>("orders", "one")).get();
        }
        System.out.println(http.send(HttpRequest.newBuilder(faults).build(), BodyHandlers.ofString()).body());
    }
}

import org.apache.kafka.common.protocol.ApiKeys;

/** Prints the requests that a release of Kafka's clients knows: number, name, versions, and whether clients send it. */
public class ApiTables {
    public static void main(String[] args) {
        for (ApiKeys key : ApiKeys.values()) {
            boolean isOfClients = ApiKeys.clientApis().contains(key);
            System.out.println(key.id + " " + key.name + " " + key.oldestVersion() + " " + key.latestVersion() + " " + isOfClients);
        }
    }
}

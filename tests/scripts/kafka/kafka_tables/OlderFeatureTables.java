import org.apache.kafka.server.common.MetadataVersion;

/** Prints the levels of the metadata that Kafka 3.9 knows. */
public class OlderFeatureTables {
    public static void main(String[] args) {
        for (String text : args) {
            try {
                System.out.println("parsed " + text + " " + MetadataVersion.fromVersionString(text).featureLevel());
            } catch (IllegalArgumentException wrong) {
                System.out.println("refused " + text + " " + wrong.getMessage());
            }
        }
        for (short level = -2; level < 40; level++) {
            try {
                System.out.println("metadata " + level + " " + MetadataVersion.fromFeatureLevel(level).version());
            } catch (IllegalArgumentException wrong) {
                System.out.println("unknown " + level + " " + wrong.getMessage());
            }
        }
        System.out.println("latest version " + MetadataVersion.LATEST_PRODUCTION);
    }
}

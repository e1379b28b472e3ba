import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.common.FeatureVersion;
import org.apache.kafka.server.common.MetadataVersion;

/** Prints the levels of features that Kafka 4.3 knows. */
public class FeatureTables {
    public static void main(String[] args) {
        for (Feature feature : Feature.PRODUCTION_FEATURES) {
            for (FeatureVersion level : feature.featureVersions()) {
                System.out.println("level " + feature.featureName() + " " + level.featureLevel() + " " + level.dependencies());
            }
            for (MetadataVersion version : MetadataVersion.VERSIONS) {
                System.out.println("default " + feature.featureName() + " " + version.featureLevel() + " " + feature.defaultLevel(version));
            }
        }
        for (String text : args) {
            try {
                System.out.println("parsed " + text + " " + MetadataVersion.fromVersionString(text, true).featureLevel());
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

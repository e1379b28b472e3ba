package main

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	. "compatibility/answering"
)

const iterations = 4096

var mechanisms = map[string]kafka.ScramMechanism{
	"SCRAM-SHA-256": kafka.ScramMechanismSha256,
	"SCRAM-SHA-512": kafka.ScramMechanismSha512,
}

func salted(given Given, salt []byte) []byte {
	if given.Mechanism == "SCRAM-SHA-256" {
		return must(pbkdf2.Key(sha256.New, given.Password, salt, iterations, sha256.Size))
	}
	return must(pbkdf2.Key(sha512.New, given.Password, salt, iterations, sha512.Size))
}

func checkEach[K comparable](failures map[K]error) any {
	for _, each := range failures {
		Check(each)
	}
	return nil
}

func partition(given Given) map[string][]int {
	return map[string][]int{given.Topic: {int(given.Partition)}}
}

var adminCalls = map[string]func(*kafka.Client, Given) any{
	"create_topic": func(client *kafka.Client, given Given) any {
		wanted := kafka.TopicConfig{Topic: given.Topic, NumPartitions: int(given.Partitions), ReplicationFactor: 1}
		for key, value := range given.Configs {
			wanted.ConfigEntries = append(wanted.ConfigEntries, kafka.ConfigEntry{ConfigName: key, ConfigValue: value})
		}
		return checkEach(must(client.CreateTopics(soon(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{wanted}})).Errors)
	},
	"delete_topic": func(client *kafka.Client, given Given) any {
		return checkEach(must(client.DeleteTopics(soon(), &kafka.DeleteTopicsRequest{Topics: []string{given.Topic}})).Errors)
	},
	"list_topics": func(client *kafka.Client, given Given) any {
		names := []string{}
		for _, each := range must(client.Metadata(soon(), &kafka.MetadataRequest{})).Topics {
			names = append(names, each.Name)
		}
		return names
	},
	"describe_topic": func(client *kafka.Client, given Given) any {
		topic := must(client.Metadata(soon(), &kafka.MetadataRequest{Topics: []string{given.Topic}})).Topics[0]
		Check(topic.Error)
		found := make([]any, len(topic.Partitions))
		for _, each := range topic.Partitions {
			replicas := []int{}
			for _, replica := range each.Replicas {
				replicas = append(replicas, replica.ID)
			}
			found[each.ID] = []any{each.ID, each.Leader.ID, replicas}
		}
		return found
	},
	"add_partitions": func(client *kafka.Client, given Given) any {
		wanted := []kafka.TopicPartitionsConfig{{Name: given.Topic, Count: given.Count}}
		return checkEach(must(client.CreatePartitions(soon(), &kafka.CreatePartitionsRequest{Topics: wanted})).Errors)
	},
	"describe_configs": func(client *kafka.Client, given Given) any {
		asked := []kafka.DescribeConfigRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: given.Topic, ConfigNames: given.Keys,
		}}
		values := map[string]string{}
		for _, resource := range must(client.DescribeConfigs(soon(), &kafka.DescribeConfigsRequest{Resources: asked})).Resources {
			Check(resource.Error)
			for _, each := range resource.ConfigEntries {
				values[each.ConfigName] = each.ConfigValue
			}
		}
		return values
	},
	"alter_configs": func(client *kafka.Client, given Given) any {
		changes := []kafka.IncrementalAlterConfigsRequestConfig{}
		for key, value := range given.Put {
			changes = append(changes, kafka.IncrementalAlterConfigsRequestConfig{
				Name: key, Value: value, ConfigOperation: kafka.ConfigOperationSet,
			})
		}
		for _, key := range given.Delete {
			changes = append(changes, kafka.IncrementalAlterConfigsRequestConfig{
				Name: key, ConfigOperation: kafka.ConfigOperationDelete,
			})
		}
		wanted := []kafka.IncrementalAlterConfigsRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: given.Topic, Configs: changes,
		}}
		request := &kafka.IncrementalAlterConfigsRequest{Resources: wanted}
		for _, each := range must(client.IncrementalAlterConfigs(soon(), request)).Resources {
			Check(each.Error)
		}
		return nil
	},
	"replace_configs": func(client *kafka.Client, given Given) any {
		wanted := kafka.AlterConfigRequestResource{ResourceType: kafka.ResourceTypeTopic, ResourceName: given.Topic}
		for key, value := range given.Configs {
			wanted.Configs = append(wanted.Configs, kafka.AlterConfigRequestConfig{Name: key, Value: value})
		}
		request := &kafka.AlterConfigsRequest{Resources: []kafka.AlterConfigRequestResource{wanted}}
		return checkEach(must(client.AlterConfigs(soon(), request)).Errors)
	},
	"offsets": func(client *kafka.Client, given Given) any {
		asked := kafka.LastOffsetOf(int(given.Partition))
		if given.At.Time != nil {
			asked = kafka.TimeOffsetOf(int(given.Partition), time.UnixMilli(*given.At.Time))
		} else if given.At.Word == "earliest" {
			asked = kafka.FirstOffsetOf(int(given.Partition))
		}
		request := &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{given.Topic: {asked}}}
		found := must(client.ListOffsets(soon(), request)).Topics[given.Topic][0]
		Check(found.Error)
		if given.At.Word == "latest" {
			return found.LastOffset
		}
		for offset := range found.Offsets {
			return offset
		}
		return found.FirstOffset
	},
	"list_groups": func(client *kafka.Client, given Given) any {
		found := must(client.ListGroups(soon(), &kafka.ListGroupsRequest{}))
		Check(found.Error)
		names := []string{}
		for _, each := range found.Groups {
			names = append(names, each.GroupID)
		}
		return names
	},
	"describe_group": func(client *kafka.Client, given Given) any {
		found := must(client.DescribeGroups(soon(), &kafka.DescribeGroupsRequest{GroupIDs: []string{given.Group}})).Groups[0]
		Check(found.Error)
		return map[string]any{"state": found.GroupState, "members": len(found.Members)}
	},
	"group_offsets": func(client *kafka.Client, given Given) any {
		request := &kafka.OffsetFetchRequest{GroupID: given.Group, Topics: partition(given)}
		response := must(client.OffsetFetch(soon(), request))
		Check(response.Error)
		found := []any{}
		for topic, partitions := range response.Topics {
			for _, each := range partitions {
				Check(each.Error)
				found = append(found, []any{topic, each.Partition, each.CommittedOffset})
			}
		}
		return found
	},
	"alter_group_offsets": func(client *kafka.Client, given Given) any {
		at := kafka.OffsetCommit{Partition: int(given.Partition), Offset: given.Offset}
		request := &kafka.OffsetCommitRequest{
			GroupID: given.Group, GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{given.Topic: {at}},
		}
		for _, partitions := range must(client.OffsetCommit(soon(), request)).Topics {
			for _, each := range partitions {
				Check(each.Error)
			}
		}
		return nil
	},
	"delete_group_offsets": func(client *kafka.Client, given Given) any {
		found := must(client.OffsetDelete(soon(), &kafka.OffsetDeleteRequest{GroupID: given.Group, Topics: partition(given)}))
		Check(found.Error)
		for _, partitions := range found.Topics {
			for _, each := range partitions {
				Check(each.Error)
			}
		}
		return nil
	},
	"delete_group": func(client *kafka.Client, given Given) any {
		return checkEach(must(client.DeleteGroups(soon(), &kafka.DeleteGroupsRequest{GroupIDs: []string{given.Group}})).Errors)
	},
	"describe_cluster": func(client *kafka.Client, given Given) any {
		found := must(client.Metadata(soon(), &kafka.MetadataRequest{}))
		return map[string]any{"id": found.ClusterID, "brokers": len(found.Brokers), "controller": found.Controller.ID}
	},
	"elect_leader": func(client *kafka.Client, given Given) any {
		request := &kafka.ElectLeadersRequest{Topic: given.Topic, Partitions: []int{0}, Timeout: patience}
		found := must(client.ElectLeaders(soon(), request))
		Check(found.Error)
		for _, each := range found.PartitionResults {
			Check(each.Error)
		}
		return nil
	},
	"reassign": func(client *kafka.Client, given Given) any {
		wanted := kafka.AlterPartitionReassignmentsRequestAssignment{PartitionID: int(given.Partition)}
		for _, each := range given.Replicas {
			wanted.BrokerIDs = append(wanted.BrokerIDs, int(each))
		}
		found := must(client.AlterPartitionReassignments(soon(), &kafka.AlterPartitionReassignmentsRequest{
			Topic: given.Topic, Timeout: patience,
			Assignments: []kafka.AlterPartitionReassignmentsRequestAssignment{wanted},
		}))
		Check(found.Error)
		for _, each := range found.PartitionResults {
			Check(each.Error)
		}
		return nil
	},
	"reassignments": func(client *kafka.Client, given Given) any {
		asked := kafka.ListPartitionReassignmentsRequestTopic{PartitionIndexes: []int{int(given.Partition)}}
		response := must(client.ListPartitionReassignments(soon(), &kafka.ListPartitionReassignmentsRequest{
			Topics: map[string]kafka.ListPartitionReassignmentsRequestTopic{given.Topic: asked}, Timeout: patience,
		}))
		Check(response.Error)
		found := []any{}
		for topic, each := range response.Topics {
			for _, partition := range each.Partitions {
				found = append(found, []any{topic, partition.PartitionIndex})
			}
		}
		return found
	},
	"create_acl": func(client *kafka.Client, given Given) any {
		wanted := kafka.ACLEntry{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: given.Topic, ResourcePatternType: kafka.PatternTypeLiteral,
			Principal: "User:" + given.User, Host: "*",
			Operation: kafka.ACLOperationTypeWrite, PermissionType: kafka.ACLPermissionTypeDeny,
		}
		for _, each := range must(client.CreateACLs(soon(), &kafka.CreateACLsRequest{ACLs: []kafka.ACLEntry{wanted}})).Errors {
			Check(each)
		}
		return nil
	},
	"describe_acls": func(client *kafka.Client, given Given) any {
		filter := kafka.ACLFilter(deletion(given))
		response := must(client.DescribeACLs(soon(), &kafka.DescribeACLsRequest{Filter: filter}))
		Check(response.Error)
		found := []any{}
		for _, resource := range response.Resources {
			for _, each := range resource.ACLs {
				operation, permission := each.Operation.String(), each.PermissionType.String()
				found = append(found, []any{each.Principal, strings.ToUpper(operation), strings.ToUpper(permission)})
			}
		}
		return found
	},
	"delete_acl": func(client *kafka.Client, given Given) any {
		filters := []kafka.DeleteACLsFilter{deletion(given)}
		count := 0
		for _, each := range must(client.DeleteACLs(soon(), &kafka.DeleteACLsRequest{Filters: filters})).Results {
			Check(each.Error)
			count += len(each.MatchingACLs)
		}
		return count
	},
	"alter_quota": func(client *kafka.Client, given Given) any {
		entry := kafka.AlterClientQuotaEntry{
			Entities: []kafka.AlterClientQuotaEntity{{EntityType: "user", EntityName: given.User}},
			Ops:      []kafka.AlterClientQuotaOps{{Key: given.Key, Value: given.Value}},
		}
		request := &kafka.AlterClientQuotasRequest{Entries: []kafka.AlterClientQuotaEntry{entry}}
		for _, each := range must(client.AlterClientQuotas(soon(), request)).Entries {
			Check(each.Error)
		}
		return nil
	},
	"describe_quota": func(client *kafka.Client, given Given) any {
		user := kafka.DescribeClientQuotasRequestComponent{EntityType: "user", Match: given.User}
		found := must(client.DescribeClientQuotas(soon(), &kafka.DescribeClientQuotasRequest{
			Components: []kafka.DescribeClientQuotasRequestComponent{user}, Strict: true,
		}))
		Check(found.Error)
		values := map[string]float64{}
		for _, entry := range found.Entries {
			for _, each := range entry.Values {
				values[each.Key] = each.Value
			}
		}
		return values
	},
	"alter_scram": func(client *kafka.Client, given Given) any {
		salt := []byte("salt")
		wanted := kafka.UserScramCredentialsUpsertion{
			Name: given.User, Mechanism: mechanisms[given.Mechanism], Iterations: iterations,
			Salt: salt, SaltedPassword: salted(given, salt),
		}
		found := must(client.AlterUserScramCredentials(soon(), &kafka.AlterUserScramCredentialsRequest{
			Upsertions: []kafka.UserScramCredentialsUpsertion{wanted},
		}))
		for _, each := range found.Results {
			Check(each.Error)
		}
		return nil
	},
	"describe_scram": func(client *kafka.Client, given Given) any {
		response := must(client.DescribeUserScramCredentials(soon(), &kafka.DescribeUserScramCredentialsRequest{
			Users: []kafka.UserScramCredentialsUser{{Name: given.User}},
		}))
		found := []any{}
		for _, user := range response.Results {
			for _, each := range user.CredentialInfos {
				for name, number := range mechanisms {
					if each.Mechanism == number {
						found = append(found, name)
					}
				}
			}
		}
		return found
	},
}

func deletion(given Given) kafka.DeleteACLsFilter {
	return kafka.DeleteACLsFilter{
		ResourceTypeFilter: kafka.ResourceTypeTopic, ResourceNameFilter: given.Topic,
		ResourcePatternTypeFilter: kafka.PatternTypeLiteral,
		PrincipalFilter:           "User:" + given.User, HostFilter: "*",
		Operation: kafka.ACLOperationTypeWrite, PermissionType: kafka.ACLPermissionTypeDeny,
	}
}

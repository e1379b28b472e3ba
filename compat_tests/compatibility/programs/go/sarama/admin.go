package main

import (
	"strings"

	"github.com/IBM/sarama"

	. "compatibility/answering"
)

var mechanisms = map[string]sarama.ScramMechanismType{
	"SCRAM-SHA-256": sarama.SCRAM_MECHANISM_SHA_256,
	"SCRAM-SHA-512": sarama.SCRAM_MECHANISM_SHA_512,
}

func checkCode(code sarama.KError) {
	if code != sarama.ErrNoError {
		Check(code)
	}
}

func pointers(configs map[string]string) map[string]*string {
	made := map[string]*string{}
	for key, value := range configs {
		made[key] = &value
	}
	return made
}

func filter(given Given) sarama.AclFilter {
	principal, host := "User:"+given.User, "*"
	return sarama.AclFilter{
		ResourceType: sarama.AclResourceTopic, ResourceName: &given.Topic, Principal: &principal, Host: &host,
		ResourcePatternTypeFilter: sarama.AclPatternLiteral,
		Operation:                 sarama.AclOperationWrite, PermissionType: sarama.AclPermissionDeny,
	}
}

var adminCalls = map[string]func(sarama.ClusterAdmin, Given) any{
	"create_topic": func(admin sarama.ClusterAdmin, given Given) any {
		detail := sarama.TopicDetail{
			NumPartitions: given.Partitions, ReplicationFactor: 1, ConfigEntries: pointers(given.Configs),
		}
		Check(admin.CreateTopic(given.Topic, &detail, false))
		return nil
	},
	"delete_topic": func(admin sarama.ClusterAdmin, given Given) any {
		Check(admin.DeleteTopic(given.Topic))
		return nil
	},
	"list_topics": func(admin sarama.ClusterAdmin, given Given) any {
		names := []string{}
		for name := range must(admin.ListTopics()) {
			names = append(names, name)
		}
		return names
	},
	"describe_topic": func(admin sarama.ClusterAdmin, given Given) any {
		topic := must(admin.DescribeTopics([]string{given.Topic}))[0]
		checkCode(topic.Err)
		found := make([]any, len(topic.Partitions))
		for _, each := range topic.Partitions {
			found[each.ID] = []any{each.ID, each.Leader, each.Replicas}
		}
		return found
	},
	"add_partitions": func(admin sarama.ClusterAdmin, given Given) any {
		Check(admin.CreatePartitions(given.Topic, given.Count, nil, false))
		return nil
	},
	"describe_configs": func(admin sarama.ClusterAdmin, given Given) any {
		resource := sarama.ConfigResource{Type: sarama.TopicResource, Name: given.Topic, ConfigNames: given.Keys}
		values := map[string]string{}
		for _, each := range must(admin.DescribeConfig(resource)) {
			values[each.Name] = each.Value
		}
		return values
	},
	"alter_configs": func(admin sarama.ClusterAdmin, given Given) any {
		changes := map[string]sarama.IncrementalAlterConfigsEntry{}
		for key, value := range given.Put {
			changes[key] = sarama.IncrementalAlterConfigsEntry{
				Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value,
			}
		}
		for _, key := range given.Delete {
			changes[key] = sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationDelete}
		}
		Check(admin.IncrementalAlterConfig(sarama.TopicResource, given.Topic, changes, false))
		return nil
	},
	"replace_configs": func(admin sarama.ClusterAdmin, given Given) any {
		Check(admin.AlterConfig(sarama.TopicResource, given.Topic, pointers(given.Configs), false))
		return nil
	},
	"delete_records": func(admin sarama.ClusterAdmin, given Given) any {
		Check(admin.DeleteRecords(given.Topic, map[int32]int64{given.Partition: given.Before}))
		return nil
	},
	"list_groups": func(admin sarama.ClusterAdmin, given Given) any {
		names := []string{}
		for name := range must(admin.ListConsumerGroups()) {
			names = append(names, name)
		}
		return names
	},
	"describe_group": func(admin sarama.ClusterAdmin, given Given) any {
		found := must(admin.DescribeConsumerGroups([]string{given.Group}))[0]
		checkCode(found.Err)
		return map[string]any{"state": found.State, "members": len(found.Members)}
	},
	"group_offsets": func(admin sarama.ClusterAdmin, given Given) any {
		asked := map[string][]int32{given.Topic: {given.Partition}}
		found := []any{}
		for topic, partitions := range must(admin.ListConsumerGroupOffsets(given.Group, asked)).Blocks {
			for partition, each := range partitions {
				checkCode(each.Err)
				found = append(found, []any{topic, partition, each.Offset})
			}
		}
		return found
	},
	"alter_group_offsets": func(admin sarama.ClusterAdmin, given Given) any {
		at := sarama.OffsetAndMetadata{Offset: given.Offset, LeaderEpoch: -1}
		wanted := map[string]map[int32]sarama.OffsetAndMetadata{given.Topic: {given.Partition: at}}
		for _, partitions := range must(admin.AlterConsumerGroupOffsets(given.Group, wanted, nil)).Errors {
			for _, each := range partitions {
				checkCode(each)
			}
		}
		return nil
	},
	"delete_group_offsets": func(admin sarama.ClusterAdmin, given Given) any {
		Check(admin.DeleteConsumerGroupOffset(given.Group, given.Topic, given.Partition))
		return nil
	},
	"delete_group": func(admin sarama.ClusterAdmin, given Given) any {
		Check(admin.DeleteConsumerGroup(given.Group))
		return nil
	},
	"describe_cluster": func(admin sarama.ClusterAdmin, given Given) any {
		brokers, controller, err := admin.DescribeCluster()
		Check(err)
		return map[string]any{"brokers": len(brokers), "controller": controller}
	},
	"log_dirs": func(admin sarama.ClusterAdmin, given Given) any {
		found := []any{}
		for _, folders := range must(admin.DescribeLogDirs([]int32{1})) {
			for _, folder := range folders {
				checkCode(folder.ErrorCode)
				for _, topic := range folder.Topics {
					for _, each := range topic.Partitions {
						if topic.Topic == given.Topic {
							found = append(found, []any{topic.Topic, each.PartitionID, each.Size})
						}
					}
				}
			}
		}
		return found
	},
	"elect_leader": func(admin sarama.ClusterAdmin, given Given) any {
		asked := map[string][]int32{given.Topic: {given.Partition}}
		for _, partitions := range must(admin.ElectLeaders(sarama.PreferredElection, asked)) {
			for _, each := range partitions {
				checkCode(each.ErrorCode)
			}
		}
		return nil
	},
	"reassign": func(admin sarama.ClusterAdmin, given Given) any {
		Check(admin.AlterPartitionReassignments(given.Topic, [][]int32{given.Replicas}))
		return nil
	},
	"reassignments": func(admin sarama.ClusterAdmin, given Given) any {
		found := []any{}
		for topic, partitions := range must(admin.ListPartitionReassignments(given.Topic, []int32{given.Partition})) {
			for partition := range partitions {
				found = append(found, []any{topic, partition})
			}
		}
		return found
	},
	"create_acl": func(admin sarama.ClusterAdmin, given Given) any {
		resource := sarama.Resource{
			ResourceType: sarama.AclResourceTopic, ResourceName: given.Topic, ResourcePatternType: sarama.AclPatternLiteral,
		}
		wanted := sarama.Acl{
			Principal: "User:" + given.User, Host: "*",
			Operation: sarama.AclOperationWrite, PermissionType: sarama.AclPermissionDeny,
		}
		Check(admin.CreateACL(resource, wanted))
		return nil
	},
	"describe_acls": func(admin sarama.ClusterAdmin, given Given) any {
		found := []any{}
		for _, resource := range must(admin.ListAcls(filter(given))) {
			for _, each := range resource.Acls {
				operation, permission := each.Operation.String(), each.PermissionType.String()
				found = append(found, []any{each.Principal, strings.ToUpper(operation), strings.ToUpper(permission)})
			}
		}
		return found
	},
	"delete_acl": func(admin sarama.ClusterAdmin, given Given) any {
		return len(must(admin.DeleteACL(filter(given), false)))
	},
	"alter_quota": func(admin sarama.ClusterAdmin, given Given) any {
		user := sarama.QuotaEntityComponent{
			EntityType: sarama.QuotaEntityUser, MatchType: sarama.QuotaMatchExact, Name: given.User,
		}
		wanted := sarama.ClientQuotasOp{Key: given.Key, Value: given.Value}
		Check(admin.AlterClientQuotas([]sarama.QuotaEntityComponent{user}, wanted, false))
		return nil
	},
	"describe_quota": func(admin sarama.ClusterAdmin, given Given) any {
		user := sarama.QuotaFilterComponent{
			EntityType: sarama.QuotaEntityUser, MatchType: sarama.QuotaMatchExact, Match: given.User,
		}
		values := map[string]float64{}
		for _, each := range must(admin.DescribeClientQuotas([]sarama.QuotaFilterComponent{user}, true)) {
			values = each.Values
		}
		return values
	},
	"alter_scram": func(admin sarama.ClusterAdmin, given Given) any {
		wanted := sarama.AlterUserScramCredentialsUpsert{
			Name: given.User, Mechanism: mechanisms[given.Mechanism], Iterations: 4096,
			Salt: []byte("salt"), Password: []byte(given.Password),
		}
		for _, each := range must(admin.UpsertUserScramCredentials([]sarama.AlterUserScramCredentialsUpsert{wanted})) {
			checkCode(each.ErrorCode)
		}
		return nil
	},
	"describe_scram": func(admin sarama.ClusterAdmin, given Given) any {
		found := []any{}
		for _, user := range must(admin.DescribeUserScramCredentials([]string{given.User})) {
			checkCode(user.ErrorCode)
			for _, each := range user.CredentialInfos {
				found = append(found, each.Mechanism.String())
			}
		}
		return found
	},
}

package main

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	. "compatibility/answering"
)

var mechanisms = map[string]kadm.ScramMechanism{
	"SCRAM-SHA-256": kadm.ScramSha256,
	"SCRAM-SHA-512": kadm.ScramSha512,
}

// The common fields of answers: an error of the whole, and one of each part.
func must[T any](found T, err error) T {
	Check(err)
	return found
}

func set(given Given) kadm.TopicsSet {
	made := kadm.TopicsSet{}
	made.Add(given.Topic, given.Partition)
	return made
}

func offset(given Given, at int64) kadm.Offsets {
	made := kadm.Offsets{}
	made.AddOffset(given.Topic, given.Partition, at, -1)
	return made
}

func acl(given Given) *kadm.ACLBuilder {
	return kadm.NewACLs().Topics(given.Topic).ResourcePatternType(kadm.ACLPatternLiteral).
		Deny("User:" + given.User).DenyHosts("*").Operations(kadm.OpWrite)
}

var adminCalls = map[string]func(*kadm.Client, Given) any{
	"create_topic": func(admin *kadm.Client, given Given) any {
		configs := map[string]*string{}
		for key, value := range given.Configs {
			configs[key] = kadm.StringPtr(value)
		}
		_, err := admin.CreateTopic(soon(), given.Partitions, 1, configs, given.Topic)
		Check(err)
		return nil
	},
	"delete_topic": func(admin *kadm.Client, given Given) any {
		_, err := admin.DeleteTopic(soon(), given.Topic)
		Check(err)
		return nil
	},
	"list_topics": func(admin *kadm.Client, given Given) any {
		return must(admin.ListTopics(soon())).Names()
	},
	"describe_topic": func(admin *kadm.Client, given Given) any {
		found := []any{}
		for _, each := range must(admin.ListTopics(soon(), given.Topic))[given.Topic].Partitions.Sorted() {
			found = append(found, []any{each.Partition, each.Leader, each.Replicas})
		}
		return found
	},
	"add_partitions": func(admin *kadm.Client, given Given) any {
		Check(must(admin.UpdatePartitions(soon(), int(given.Count), given.Topic)).Error())
		return nil
	},
	"describe_configs": func(admin *kadm.Client, given Given) any {
		found := must(must(admin.DescribeTopicConfigs(soon(), given.Topic)).On(given.Topic, nil))
		Check(found.Err)
		values := map[string]any{}
		for _, each := range found.Configs {
			for _, key := range given.Keys {
				if each.Key == key {
					values[key] = each.MaybeValue()
				}
			}
		}
		return values
	},
	"alter_configs": func(admin *kadm.Client, given Given) any {
		changes := []kadm.AlterConfig{}
		for key, value := range given.Put {
			changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: key, Value: kadm.StringPtr(value)})
		}
		for _, key := range given.Delete {
			changes = append(changes, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: key})
		}
		Check(must(must(admin.AlterTopicConfigs(soon(), changes, given.Topic)).On(given.Topic, nil)).Err)
		return nil
	},
	"replace_configs": func(admin *kadm.Client, given Given) any {
		configs := []kadm.AlterConfig{}
		for key, value := range given.Configs {
			configs = append(configs, kadm.AlterConfig{Name: key, Value: kadm.StringPtr(value)})
		}
		Check(must(must(admin.AlterTopicConfigsState(soon(), configs, given.Topic)).On(given.Topic, nil)).Err)
		return nil
	},
	"offsets": func(admin *kadm.Client, given Given) any {
		var found kadm.ListedOffsets
		if given.At.Time != nil {
			found = must(admin.ListOffsetsAfterMilli(soon(), *given.At.Time, given.Topic))
		} else if given.At.Word == "earliest" {
			found = must(admin.ListStartOffsets(soon(), given.Topic))
		} else {
			found = must(admin.ListEndOffsets(soon(), given.Topic))
		}
		Check(found.Error())
		return found[given.Topic][given.Partition].Offset
	},
	"delete_records": func(admin *kadm.Client, given Given) any {
		Check(must(admin.DeleteRecords(soon(), offset(given, given.Before))).Error())
		return nil
	},
	"list_groups": func(admin *kadm.Client, given Given) any {
		return must(admin.ListGroups(soon())).Groups()
	},
	"describe_group": func(admin *kadm.Client, given Given) any {
		found := must(admin.DescribeGroups(soon(), given.Group))[given.Group]
		Check(found.Err)
		return map[string]any{"state": found.State, "members": len(found.Members)}
	},
	"group_offsets": func(admin *kadm.Client, given Given) any {
		found := []any{}
		must(admin.FetchOffsets(soon(), given.Group)).Each(func(each kadm.OffsetResponse) {
			Check(each.Err)
			found = append(found, []any{each.Topic, each.Partition, each.At})
		})
		return found
	},
	"alter_group_offsets": func(admin *kadm.Client, given Given) any {
		Check(must(admin.CommitOffsets(soon(), given.Group, offset(given, given.Offset))).Error())
		return nil
	},
	"delete_group_offsets": func(admin *kadm.Client, given Given) any {
		Check(must(admin.DeleteOffsets(soon(), given.Group, set(given))).Error())
		return nil
	},
	"delete_group": func(admin *kadm.Client, given Given) any {
		_, err := admin.DeleteGroup(soon(), given.Group)
		Check(err)
		return nil
	},
	"describe_cluster": func(admin *kadm.Client, given Given) any {
		found := must(admin.BrokerMetadata(soon()))
		return map[string]any{"id": found.Cluster, "brokers": len(found.Brokers), "controller": found.Controller}
	},
	"log_dirs": func(admin *kadm.Client, given Given) any {
		found := []any{}
		must(admin.DescribeAllLogDirs(soon(), set(given))).Each(func(folder kadm.DescribedLogDir) {
			Check(folder.Err)
			folder.Topics.Each(func(each kadm.DescribedLogDirPartition) {
				found = append(found, []any{each.Topic, each.Partition, each.Size})
			})
		})
		return found
	},
	"elect_leader": func(admin *kadm.Client, given Given) any {
		Check(must(admin.ElectLeaders(soon(), kadm.ElectPreferredReplica, set(given)))[given.Topic][given.Partition].Err)
		return nil
	},
	"reassign": func(admin *kadm.Client, given Given) any {
		wanted := kadm.AlterPartitionAssignmentsReq{}
		wanted.Assign(given.Topic, given.Partition, given.Replicas)
		Check(must(admin.AlterPartitionAssignments(soon(), wanted)).Error())
		return nil
	},
	"reassignments": func(admin *kadm.Client, given Given) any {
		found := []any{}
		must(admin.ListPartitionReassignments(soon(), set(given))).Each(func(each kadm.ListPartitionReassignmentsResponse) {
			found = append(found, []any{each.Topic, each.Partition})
		})
		return found
	},
	"create_acl": func(admin *kadm.Client, given Given) any {
		for _, each := range must(admin.CreateACLs(soon(), acl(given))) {
			Check(each.Err)
		}
		return nil
	},
	"describe_acls": func(admin *kadm.Client, given Given) any {
		found := []any{}
		for _, result := range must(admin.DescribeACLs(soon(), acl(given))) {
			Check(result.Err)
			for _, each := range result.Described {
				names := []any{each.Principal, strings.ToUpper(each.Operation.String()), strings.ToUpper(each.Permission.String())}
				found = append(found, names)
			}
		}
		return found
	},
	"delete_acl": func(admin *kadm.Client, given Given) any {
		count := 0
		for _, result := range must(admin.DeleteACLs(soon(), acl(given))) {
			Check(result.Err)
			count += len(result.Deleted)
		}
		return count
	},
	"alter_quota": func(admin *kadm.Client, given Given) any {
		entry := kadm.AlterClientQuotaEntry{
			Entity: kadm.ClientQuotaEntity{{Type: "user", Name: &given.User}},
			Ops:    []kadm.AlterClientQuotaOp{{Key: given.Key, Value: given.Value}},
		}
		for _, each := range must(admin.AlterClientQuotas(soon(), []kadm.AlterClientQuotaEntry{entry})) {
			Check(each.Err)
		}
		return nil
	},
	"describe_quota": func(admin *kadm.Client, given Given) any {
		user := kadm.DescribeClientQuotaComponent{Type: "user", MatchName: &given.User, MatchType: kmsg.QuotasMatchTypeExact}
		values := map[string]any{}
		for _, entity := range must(admin.DescribeClientQuotas(soon(), true, []kadm.DescribeClientQuotaComponent{user})) {
			for _, each := range entity.Values {
				values[each.Key] = each.Value
			}
		}
		return values
	},
	"alter_scram": func(admin *kadm.Client, given Given) any {
		wanted := kadm.UpsertSCRAM{
			User: given.User, Mechanism: mechanisms[given.Mechanism], Iterations: 4096, Password: given.Password,
		}
		for _, each := range must(admin.AlterUserSCRAMs(soon(), nil, []kadm.UpsertSCRAM{wanted})) {
			Check(each.Err)
		}
		return nil
	},
	"describe_scram": func(admin *kadm.Client, given Given) any {
		found := []any{}
		for _, user := range must(admin.DescribeUserSCRAMs(soon(), given.User)) {
			Check(user.Err)
			for _, each := range user.CredInfos {
				found = append(found, each.Mechanism.String())
			}
		}
		return found
	},
	"create_token": func(admin *kadm.Client, given Given) any {
		return must(admin.CreateDelegationToken(soon(), kadm.CreateDelegationToken{})).TokenID
	},
	"tokens": func(admin *kadm.Client, given Given) any {
		found := []any{}
		for _, each := range must(admin.DescribeDelegationTokens(soon())) {
			found = append(found, each.TokenID)
		}
		return found
	},
}

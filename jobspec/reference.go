package jobspec

import (
	"reflect"
	"strings"

	"berth/jobspec/listing"
)

// lifted are the members that a file may have above the place that they are meant for.
var lifted = strings.NewReplacer(
	"^Tasks[]", "TaskGroups[].Tasks[]",
	"^Consul.Namespace", "ConsulNamespace",
	"^Consul", "ConsulNamespace",
	"^Vault", "TaskGroups[].Tasks[].Vault",
	"^Secrets", "TaskGroups[].Tasks[].Secrets",
	"^TaskGroups[].Vault", "TaskGroups[].Tasks[].Vault",
	"^TaskGroups[].Secrets", "TaskGroups[].Tasks[].Secrets",
	"^", "",
)

// JobEntries lists what may stand in a job file, block by block.
func JobEntries() []listing.Entry {
	all := listing.Of("job", reflect.TypeFor[jobBlock](), jobSpecials)
	for i := range all {
		all[i].Path = lifted.Replace("^" + all[i].Path)
	}
	return all
}

// VolumeEntries lists what may stand in a volume file of type csi.
func VolumeEntries() []listing.Entry {
	return listing.Of("", reflect.TypeFor[csiVolumeFile](), volumeSpecials)
}

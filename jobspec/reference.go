package jobspec

import (
	"reflect"
	"strings"

	"berth/jobspec/hclfile"
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
func JobEntries() []hclfile.Entry {
	all := hclfile.Entries("job", reflect.TypeFor[jobBlock](), jobSpecials)
	for i := range all {
		all[i].Path = lifted.Replace("^" + all[i].Path)
	}
	return all
}

// VolumeEntries lists what may stand in a volume file of type csi.
func VolumeEntries() []hclfile.Entry {
	return hclfile.Entries("", reflect.TypeFor[csiVolumeFile](), volumeSpecials)
}

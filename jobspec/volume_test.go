package jobspec_test

import (
	"fmt"
	"strings"
	"testing"

	"berth/api"
	"berth/jobspec"

	"github.com/google/go-cmp/cmp"
)

const csiHCL = `
# written for an older parser: some names are quoted
id        = "vol1"
"name"    = "database"
type      = "csi"
plugin_id = "local"
namespace = "default"

capacity_min = "10GiB"
capacity_max = "20G"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
"capability" {
  "access_mode"     = "single-node-reader-only"
  "attachment_mode" = "file-system"
}

mount_options {
  fs_type     = "ext4"
  mount_flags = ["noatime", "ro"]
}

topology_request {
  required {
    topology { segments { "topology.local.csi/node" = "n1" } }
  }
  preferred {
    topology {
      segments {
        zone = "b"
      }
    }
  }
}

secrets {
  "api key" = "xyzzy"
}
parameters {
  "csi.storage.k8s.io/fstype" = "ext4"
  replicas = 3
}
context = { a = "b" }
`

const csiJSON = `{
  "id": "vol1", "name": "database", "type": "csi", "plugin_id": "local", "namespace": "default",
  "capacity_min": 10737418240, "capacity_max": "20000000000",
  "capability": [
    {"access_mode": "single-node-writer", "attachment_mode": "file-system"},
    {"access_mode": "single-node-reader-only", "attachment_mode": "file-system"}
  ],
  "mount_options": {"fs_type": "ext4", "mount_flags": ["noatime", "ro"]},
  "topology_request": {
    "required": {"topology": [{"segments": {"topology.local.csi/node": "n1"}}]},
    "preferred": [{"topology": {"segments": {"zone": "b"}}}]
  },
  "secrets": {"api key": "xyzzy"},
  "parameters": {"csi.storage.k8s.io/fstype": "ext4", "replicas": 3},
  "context": {"a": "b"}
}`

// Given a CSI volume in HCL with quoted names and the same in JSON, when they are parsed, then both are the volume.
func TestCSIVolumeFilesInBothForms(t *testing.T) {
	want := &jobspec.Volume{CSI: &api.CSIVolume{
		ID:                   "vol1",
		Name:                 "database",
		PluginID:             "local",
		Namespace:            "default",
		RequestedCapacityMin: 10 << 30,
		RequestedCapacityMax: 20_000_000_000,
		RequestedCapabilities: []*api.CSIVolumeCapability{
			{AccessMode: "single-node-writer", AttachmentMode: "file-system"},
			{AccessMode: "single-node-reader-only", AttachmentMode: "file-system"},
		},
		MountOptions: &api.CSIMountOptions{FSType: "ext4", MountFlags: []string{"noatime", "ro"}},
		RequestedTopologies: &api.CSITopologyRequest{
			Required:  []*api.CSITopology{{Segments: map[string]string{"topology.local.csi/node": "n1"}}},
			Preferred: []*api.CSITopology{{Segments: map[string]string{"zone": "b"}}},
		},
		Secrets:    api.Secrets{"api key": "xyzzy"},
		Parameters: map[string]string{"csi.storage.k8s.io/fstype": "ext4", "replicas": "3"},
		Context:    map[string]string{"a": "b"},
	}}
	for name, src := range map[string]string{"v.hcl": csiHCL, "v.json": csiJSON} {
		got, err := jobspec.ParseVolume(name, []byte(src))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(want, got,
			cmp.Comparer(func(a, b api.Secrets) bool {
				return cmp.Equal(map[string]string(a), map[string]string(b))
			})); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

// Given a host volume, when it is parsed, then constraints take their shortcuts and sizes their units.
func TestHostVolumeFile(t *testing.T) {
	got, err := jobspec.ParseVolume("v.hcl", []byte(`
type = "host"
name = "data1"
plugin_id = "mkdir"
node_pool = "default"
capacity_min = "1MiB"
capacity_max = "10 MiB"
constraint {
  attribute = "${attr.kernel.name}"
  value     = "linux"
}
constraint {
  attribute = "$${attr.kernel.version}"
  version   = "> 5"
}
capability {
  access_mode     = "single-node-multi-writer"
  attachment_mode = "file-system"
}
parameters { mode = "0755" }
`))
	if err != nil {
		t.Fatal(err)
	}
	want := &api.HostVolume{
		Name:                      "data1",
		PluginID:                  "mkdir",
		NodePool:                  "default",
		RequestedCapacityMinBytes: 1 << 20,
		RequestedCapacityMaxBytes: 10 << 20,
		Constraints: []*api.Constraint{
			{LTarget: "${attr.kernel.name}", RTarget: "linux", Operand: "="},
			{LTarget: "${attr.kernel.version}", RTarget: "> 5", Operand: "version"},
		},
		RequestedCapabilities: []*api.HostVolumeCapability{{
			AccessMode:     "single-node-multi-writer",
			AttachmentMode: "file-system",
		}},
		Parameters: map[string]string{"mode": "0755"},
	}
	if diff := cmp.Diff(want, got.Host); diff != "" {
		t.Error(diff)
	}
}

// Given volume files with one mistake each, when they are parsed, then the error begins with file, line and column.
func TestVolumeMistakesAreNamedWithTheirPlace(t *testing.T) {
	const head = "type = \"csi\"\nid = \"v\"\nplugin_id = \"p\"\n"
	const capability = "capability {\n  access_mode = \"single-node-writer\"\n  attachment_mode = \"file-system\"\n}\n"
	cases := []wrong{
		{"a job", "job \"j\" {}", "v.hcl:1:1: this is a job file; \"berth job run\" takes it"},
		{"no type", "id = \"v\"", "v.hcl: the file has no type; write type = \"csi\" or type = \"host\""},
		{"unknown type", "type = \"nfs\"", `v.hcl:1:8: the volume type "nfs" is not known; there are csi and host`},
		{"block around", "volume \"v\" {\n type = \"csi\"\n}",
			"v.hcl:1:1: a volume file has the volume's attributes at its top"},
		{"typing mistake", head + capability + "plugin = \"x\"",
			`v.hcl:8:1: the file has no attribute "plugin"; did you mean "plugin_id"?`},
		{"old mode", head + "access_mode = \"single-node-writer\"",
			`v.hcl:4:1: the file has no attribute "access_mode": write it in a capability block`},
		{"host member", head + capability + "host_path = \"/x\"",
			`v.hcl:8:1: the file has no attribute "host_path": it belongs to volumes of type host`},
		{"no capability", head, "v.hcl: the volume needs a block capability"},
		{"no plugin", "type = \"csi\"\nid = \"v\"\n" + capability,
			`v.hcl: the volume has no plugin_id; write plugin_id = "…"`},
		{"mode", head + "capability {\n  access_mode = \"single-node-writter\"\n  attachment_mode = \"file-system\"\n}",
			`v.hcl:5:3: the access_mode "single-node-writter" is not known; there are `},
		{"missing mode", head + "capability {\n  access_mode = \"single-node-writer\"\n}",
			`v.hcl:4:1: the capability has no attachment_mode; there are file-system, block-device`},
		{"unit", head + capability + "capacity_min = \"10XB\"",
			`v.hcl:8:16: capacity_min the size "10XB" has the unknown unit "XB"`},
		{"exponent", head + capability + "capacity_min = \"1e3\"", `v.hcl:8:16: capacity_min "1e3" is not a size`},
		{"size overflow", head + capability + "capacity_min = \"9EiB\"",
			`v.hcl:8:16: capacity_min the size "9EiB" is larger than 9223372036854775807 bytes`},
		{"negative", head + capability + "capacity_min = -1", `v.hcl:8:16: capacity_min the size -1 is negative`},
		{"min above max", head + capability + "capacity_min = \"2G\"\ncapacity_max = \"1G\"",
			`v.hcl:9:1: capacity_max (1000000000 bytes) is less than capacity_min (2000000000 bytes)`},
		{"snapshot and clone", head + capability + "snapshot_id = \"a\"\nclone_id = \"b\"",
			`v.hcl:9:1: a volume is made from a snapshot or from another volume, not both`},
		{"segments", head + capability + "topology_request {\n  required {\n    topology {\n    }\n  }\n}",
			`v.hcl:10:5: the topology has no segments`},
		{"reference", head + capability + "name = var.x",
			`v.hcl:8:8: var.x is a reference; this file takes plain values only`},
		{"reference in a text that computes", head + capability + "name = \"${attr.x + 1}\"",
			`v.hcl:8:11: attr.x is a reference; this file takes plain values only`},
		{"quoted twice", head + capability + "parameters {\n  \"a/b\" = 1\n  \"a/b\" = 2\n}",
			`v.hcl:10:3: a/b is given twice in parameters`},
		{"host distinct", "type = \"host\"\nname = \"v\"\nconstraint {\n  distinct_hosts = true\n}",
			`v.hcl:3:1: a volume is placed on one node, so distinct_hosts means nothing`},
		{"JSON syntax", "{\n  \"type\": \"csi\",\n  id: 1\n}", `v.hcl:3:3: not valid JSON`},
		{"JSON member",
			"{\n  \"type\": \"csi\", \"id\": \"v\", \"plugin_id\": \"p\",\n  \"capability\": {\"access_mod\": " +
				"\"x\"}\n}", `v.hcl:3:18: capability has no attribute "access_mod"; did you mean "access_mode"?`},
		{"JSON twice", "{\n  \"type\": \"csi\",\n  \"type\": \"host\"}", `v.hcl:3:3: the member "type" is there twice`},
		{"JSON block as text", "{\"type\": \"csi\", \"mount_options\": \"x\"}", `v.hcl:1:17: mount_options is a block`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := jobspec.ParseVolume("v.hcl", []byte(c.src))
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// Given sizes at their edges, when they are read, then units are exact and nothing wraps around.
func TestSizes(t *testing.T) {
	good := map[string]int64{
		"0": 0, "1": 1, "10GB": 10_000_000_000, "10G": 10_000_000_000, "10GiB": 10 << 30, "10Gi": 10 <<
			30, "10gib": 10 << 30,
		"10MB": 10_000_000, "1.5KiB": 1536, "7EiB": 7 << 60, "9223372036854775807": 1<<63 - 1, " 5 kB ": 5000, "3B": 3,
	}
	for text, want := range good {
		if got, err := jobspec.ParseSize(text); err != nil || got != want {
			t.Errorf("%q: got %d (%v), want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "-1", "1e3", "8EiB", "9EiB", "9223372036854775808", "1.5", "0.1KB3", "1 0",
		"10GBB", "1.3KiB", "999999999999999999999999999999999999G"} {
		if got, err := jobspec.ParseSize(text); err == nil {
			t.Errorf("%q became %d", text, got)
		}
	}
}

// Given a volume with secrets, when it is printed in any way, then no secret is shown.
func TestSecretsOfVolumesAreNotPrinted(t *testing.T) {
	vol, err := jobspec.ParseVolume("v.hcl", []byte(csiHCL))
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		if text := fmt.Sprintf(verb, *vol.CSI); strings.Contains(text, "xyzzy") ||
			strings.Contains(text, "78797a7a79") {
			t.Errorf("%s shows the secret: %s", verb, text)
		}
	}
}

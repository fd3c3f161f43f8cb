package jobspec_test

import (
	"fmt"

	"berth/jobspec"
)

// A job file becomes a job as the API takes it; what the file does not say stays unset.
func ExampleParse() {
	job, err := jobspec.Parse(jobspec.ParseConfig{
		Path: "db.hcl",
		Vars: map[string]string{"version": "7"},
		Source: []byte(`
variable "version" {
  type = string
}

job "db" {
  group "db" {
    count = 2
    task "redis" {
      driver = "exec"
      config {
        command = "redis-server-${var.version}"
      }
    }
  }
}
`),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	group := job.TaskGroups[0]
	fmt.Println(*job.ID, group.Name, *group.Count, group.Tasks[0].Config["command"])
	// Output: db db 2 redis-server-7
}

// Everything that is wrong with a file is reported at once, each with its place.
func ExampleProblems() {
	_, err := jobspec.Parse(jobspec.ParseConfig{
		Path: "db.hcl",
		Source: []byte(`job "db" {
  group "db" {
    cuont = 2
  }
}
`),
	})
	for _, p := range jobspec.Problems(err) {
		fmt.Println(p)
	}
	// Output: db.hcl:3:5: group "db" has no attribute "cuont"; did you mean "count"?
}

func ExampleParseVolume() {
	volume, err := jobspec.ParseVolume("volume.hcl", []byte(`
id           = "db-data"
name         = "db-data"
type         = "csi"
plugin_id    = "local-csi"
capacity_min = "1GiB"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	csi := volume.CSI
	fmt.Println(csi.ID, csi.PluginID, csi.RequestedCapacityMin, csi.RequestedCapabilities[0].AccessMode)
	// Output: db-data local-csi 1073741824 single-node-writer
}

func ExampleFormat() {
	text, err := jobspec.Format("db.hcl", []byte("job \"db\" {\n group \"db\" {\ncount=2\n}\n}\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s", text)
	// Output:
	// job "db" {
	//   group "db" {
	//     count = 2
	//   }
	// }
}

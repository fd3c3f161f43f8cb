// Package samplejob owns the job that the tests of the HTTP surface are about: it has one of every block that is built.
package samplejob

import (
	"time"

	"berth/api"
)

// New makes the job as its author wrote it, without defaults.
func New() *api.Job {
	return &api.Job{
		ID:          new("web"),
		Meta:        map[string]string{"k": "v"},
		Constraints: []*api.Constraint{{LTarget: "${attr.kernel.name}", RTarget: "linux", Operand: "="}},
		Update:      &api.UpdateStrategy{MaxParallel: new(3)},
		Reschedule:  &api.ReschedulePolicy{Delay: new(7 * time.Second)},
		TaskGroups:  []*api.TaskGroup{group()},
	}
}

func group() *api.TaskGroup {
	return &api.TaskGroup{
		Name:          "g",
		RestartPolicy: &api.RestartPolicy{Attempts: new(9)},
		Spreads: []*api.Spread{{
			Attribute:    "${node.datacenter}",
			SpreadTarget: []*api.SpreadTarget{{Value: "dc1", Percent: 60}},
		}},
		Networks: []*api.NetworkResource{{
			ReservedPorts: []api.Port{{Label: "db", Value: 6379}},
			DynamicPorts:  []api.Port{{Label: "http"}},
		}},
		Volumes: map[string]*api.VolumeRequest{"data": {
			Type:           "csi",
			Source:         "db",
			AccessMode:     "single-node-writer",
			AttachmentMode: "file-system",
			MountOptions:   &api.CSIMountOptions{FSType: "ext4", MountFlags: []string{"noatime"}},
		}},
		Tasks: []*api.Task{task()},
	}
}

func task() *api.Task {
	return &api.Task{
		Name:          "t",
		Driver:        "exec",
		Config:        map[string]any{"command": "/bin/x", "args": []any{"-a", "b"}},
		Env:           map[string]string{"A": "b"},
		User:          "nobody",
		Leader:        true,
		KillSignal:    "SIGINT",
		KillTimeout:   new(9 * time.Second),
		ShutdownDelay: time.Second,
		Resources:     &api.Resources{CPU: new(20), MemoryMB: new(30), MemoryMaxMB: new(40), PIDs: 50},
		LogConfig:     &api.LogConfig{MaxFiles: new(2)},
		Templates: []*api.Template{
			{EmbeddedTmpl: new("x"), DestPath: new("local/x"), ChangeMode: new("signal")},
			{
				SourcePath:   new("local/y.tpl"),
				DestPath:     new("local/y"),
				ChangeMode:   new("script"),
				ChangeScript: &api.ChangeScript{Command: new("/bin/x"), Args: []string{"a"}, FailOnError: new(true)},
				Wait:         &api.WaitConfig{Min: new(time.Second), Max: new(time.Minute)},
			},
		},
		Artifacts: []*api.TaskArtifact{{
			GetterSource:   new("https://example.com/a.tar.gz"),
			GetterOptions:  map[string]string{"archive": "tar.gz"},
			GetterHeaders:  map[string]string{"X-A": "b"},
			GetterMode:     new("dir"),
			GetterInsecure: new(true),
			RelativeDest:   new("local/a"),
			Chown:          true,
		}},
		VolumeMounts:    []*api.VolumeMount{{Volume: new("data"), Destination: new("/data"), ReadOnly: new(true)}},
		Lifecycle:       &api.TaskLifecycle{Hook: "prestart", Sidecar: true},
		CSIPluginConfig: &api.TaskCSIPluginConfig{ID: "p", Type: "node", ControllerScope: "node", MaxParallel: 3},
	}
}

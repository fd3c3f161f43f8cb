package filter

import (
	"strings"
	"testing"

	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
)

// Given volumes of several file systems, tasks that mount them or not, and nodes whose tasks have user namespaces or
// not, when a place is sought, then those nodes are passed over, before anything is claimed, that cannot show the
// volume to a task, by the volume's name and with a way out; whatever only a try can tell is left to the node.
func TestAVolumeThatKeepsItsOwnersIsNotTakenToUserNamespaces(t *testing.T) {
	mounts := []*job.VolumeMount{{Volume: "data", Destination: "/data"}}
	task := func(change func(*job.Task)) *job.Task {
		out := &job.Task{Name: "web", Driver: "exec", VolumeMounts: mounts, Config: map[string]any{}}
		if change != nil {
			change(out)
		}
		return out
	}
	own := map[string]string{"driver.exec.user_namespaces": "1"}
	nfs := &volume.MountOptions{FSType: "nfs4"}
	for name, c := range map[string]struct {
		attributes map[string]string
		registered *volume.MountOptions
		asked      *job.MountOptions
		task       *job.Task
		refused    bool
	}{
		"nfs":                         {own, nfs, nil, task(nil), true},
		"nfs by the job":              {own, nil, &job.MountOptions{FSType: "nfs"}, task(nil), true},
		"the job says otherwise":      {own, nfs, &job.MountOptions{FSType: "xfs"}, task(nil), false},
		"ext4":                        {own, &volume.MountOptions{FSType: "ext4"}, nil, task(nil), false},
		"nobody says what":            {own, nil, nil, task(nil), false},
		"a node without":              {nil, nfs, nil, task(nil), false},
		"another driver":              {own, nfs, nil, task(func(t *job.Task) { t.Driver = "raw_exec" }), false},
		"a task that does not use it": {own, nfs, nil, task(func(t *job.Task) { t.VolumeMounts = nil }), false},
		"the node's processes": {own, nfs, nil,
			task(func(t *job.Task) { t.Config["pid_mode"] = "host" }), false},
		"its own processes": {own, nfs, nil,
			task(func(t *job.Task) { t.Config["pid_mode"] = "private" }), true},
		"a storage plugin": {own, nfs, nil,
			task(func(t *job.Task) { t.CSIPluginConfig = &job.CSIPluginConfig{ID: "p"} }), false},
		"a controller alone": {own, nfs, nil, task(func(t *job.Task) {
			t.CSIPluginConfig = &job.CSIPluginConfig{ID: "p", Type: job.PluginController}
		}), true},
	} {
		s := newStored().put(volume.SingleNodeWriter)
		v := s.volumes["v"]
		v.Spec.Plugin, v.Spec.MountOptions = "p", c.registered
		n := &node.Node{ID: "here", Attributes: c.attributes, CSI: []*plugin.Instance{
			{Plugin: "p", Role: plugin.RoleNode, State: plugin.Ready},
		}}
		f := NewCSI(NewLedger(s))
		f.Prepare(&Request{Job: &job.Job{}, Group: &job.TaskGroup{
			Tasks: []*job.Task{c.task},
			Volumes: map[string]*job.VolumeRequest{"data": {
				Name:           "data",
				Type:           job.VolumeTypeCSI,
				Source:         "v",
				AccessMode:     string(volume.SingleNodeWriter),
				AttachmentMode: string(volume.FileSystem),
				MountOptions:   c.asked,
			}},
		}})
		if key := f.Check(n); (key != "") != c.refused || c.refused && !strings.Contains(key, "CSI volume v ") {
			t.Errorf("%s: the filter says %q", name, key)
		}
		reason, hint := f.Explain(n)
		if !c.refused && reason+hint != "" {
			t.Errorf("%s: %s; %s", name, reason, hint)
		}
		for _, word := range []string{`volume "v"`, "NFS", `task "web"`, "driver exec"} {
			if c.refused && !strings.Contains(reason, word) {
				t.Errorf("%s: %q is not in: %s", name, word, reason)
			}
		}
		if c.refused && !strings.Contains(hint, "is_not_set") {
			t.Errorf("%s: the way out is %q", name, hint)
		}
	}
}

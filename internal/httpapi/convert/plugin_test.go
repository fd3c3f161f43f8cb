package convert

import (
	"encoding/json"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/plugin"
	"berth/internal/wire"
)

// Given a plugin whose roles are served by allocs of two jobs, then each role names its jobs with how many allocs of
// them serve it, as observed.
func TestAPluginNamesTheJobsThatServeIt(t *testing.T) {
	v := &wire.PluginView{Record: &plugin.Record{ID: "disk"}}
	serves := func(job ids.Job, id ids.Alloc, roles ...plugin.Role) {
		v.Allocs = append(v.Allocs, &alloc.Alloc{ID: id, Namespace: "default", Job: job})
		for _, r := range roles {
			v.Instances = append(v.Instances, &plugin.Instance{Plugin: "disk", Role: r, Alloc: id, Node: ids.Node(id)})
		}
	}
	serves("controllers", "c1", plugin.RoleController)
	serves("nodes", "n1", plugin.RoleNode, plugin.RoleController)
	serves("nodes", "n2", plugin.RoleNode)
	serves("gone", "g1")
	out := Plugin(v)
	for _, c := range []struct {
		got  any
		want string
	}{
		{out.ControllerJobs, `{"default":{"controllers":{"Namespace":"default","ID":"controllers","Expected":1},` +
			`"nodes":{"Namespace":"default","ID":"nodes","Expected":1}}}`},
		{out.NodeJobs, `{"default":{"nodes":{"Namespace":"default","ID":"nodes","Expected":2}}}`},
	} {
		if got, err := json.Marshal(c.got); err != nil || string(got) != c.want {
			t.Errorf("%s, %v\nwant %s", got, err, c.want)
		}
	}
}

package allochooks_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client/allochooks"
	"berth/internal/client/hook"
	"berth/internal/client/networks"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/port/driver"
)

// made keeps what is asked for.
type made struct {
	wants    []networks.Want
	released []ids.Alloc
}

func (m *made) Make(_ context.Context, w networks.Want) (*networks.Made, error) {
	m.wants = append(m.wants, w)
	return &networks.Made{
		Network:  driver.Network{Namespace: "/ns"},
		Status:   &alloc.NetworkStatus{Address: "10.0.0.2"},
		Warnings: []string{"look here"},
	}, nil
}

func (m *made) Release(_ context.Context, id ids.Alloc) error {
	m.released = append(m.released, id)
	return nil
}

// asking runs the hook for an alloc whose group asks for a network, and tells its events.
func asking(
	t *testing.T, n *job.NetworkResource, isolation driver.Isolation,
) (m *made, a *hook.Alloc, events []string, err error) {
	t.Helper()
	m = &made{}
	a = &hook.Alloc{
		Alloc: &alloc.Alloc{
			ID:        "a",
			Resources: alloc.Resources{Ports: []alloc.PortMapping{{Label: "http", Value: 80}}},
		},
		Group: &job.TaskGroup{
			Name:     "web",
			Tasks:    []*job.Task{{Name: "t", Driver: "d"}},
			Networks: []*job.NetworkResource{n},
		},
		Network:     new(hook.Network),
		Interpolate: func(s string) (string, error) { return strings.ReplaceAll(s, "${NOMAD_ALLOC_INDEX}", "0"), nil },
		Driver: func(string) (driver.Info, error) {
			return driver.Info{Capabilities: driver.Capabilities{FSIsolation: isolation}}, nil
		},
		Emit: func(e *alloc.TaskEvent) { events = append(events, e.Type+": "+e.DisplayMessage) },
	}
	h := &allochooks.Network{Networks: m}
	err = h.Prerun(t.Context(), a)
	if e := h.Postrun(t.Context(), a); e != nil || len(m.released) != 1 {
		t.Errorf("released: %v, %v", m.released, e)
	}
	return m, a, events, err
}

// Given groups that ask for networks, then the keeper is asked for what they say, and what it made is there for tasks
// and reports; the node's own network, as it is, is nobody's affair. What a task would not notice is refused.
func TestAnAllocGetsTheNetworkOfItsGroup(t *testing.T) {
	dns := &job.DNS{Servers: []string{"192.0.2.53"}}
	m, a, events, err := asking(t, &job.NetworkResource{
		Mode:     "bridge",
		Hostname: "web-${NOMAD_ALLOC_INDEX}",
		DNS:      dns,
	}, driver.IsolationChroot)
	want := []networks.Want{{
		Alloc:    "a",
		Mode:     "bridge",
		Ports:    []alloc.PortMapping{{Label: "http", Value: 80}},
		Hostname: "web-0",
		DNS:      dns,
	}}
	if diff := cmp.Diff(want, m.wants); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if got := a.Network.Get(); got == nil || got.Namespace != "/ns" || a.Network.Status().Address != "10.0.0.2" {
		t.Errorf("the tasks get %+v, the report %+v", got, a.Network.Status())
	}
	if len(events) != 1 || events[0] != "Network: look here" {
		t.Errorf("events: %q", events)
	}
	if m, a, _, err = asking(t, &job.NetworkResource{Mode: "host"}, driver.IsolationNone); err != nil ||
		len(m.wants) > 0 || a.Network.Get() != nil {
		t.Errorf("the node's own network: %+v, %v", m.wants, err)
	}
	m, _, _, err = asking(t, &job.NetworkResource{Mode: "bridge"}, driver.IsolationNone)
	if err != nil || len(m.wants) != 1 {
		t.Errorf("a task without a root of its own: %+v, %v", m.wants, err)
	}
	for what, c := range map[string]struct {
		net       job.NetworkResource
		isolation driver.Isolation
		kind      fault.Kind
	}{
		"a name for the node's /etc": {job.NetworkResource{Hostname: "web"}, driver.IsolationNone, fault.Unsupported},
		"dns for the node's /etc":    {job.NetworkResource{DNS: dns}, driver.IsolationNone, fault.Unsupported},
		"a name that is none":        {job.NetworkResource{Hostname: "a_b"}, driver.IsolationChroot, fault.Invalid},
	} {
		if m, _, _, err := asking(t, &c.net, c.isolation); !fault.Has(err, c.kind) || len(m.wants) > 0 {
			t.Errorf("%s: %+v, %v", what, m.wants, err)
		}
	}
}

// Given a group with a network and drivers that say what their tasks can be in, when the network is to be made, then a
// driver that insists on making it does, and one whose tasks cannot be in it is refused before anything is made, with
// the way out. A driver that says nothing of it, and the node's own network, are in nobody's way.
func TestADriverThatInsistsMakesTheNetwork(t *testing.T) {
	known := driver.Networks{Known: true}
	joins, makes := known, known
	none := known
	joins.Alloc, none.None = true, true
	makes.Alloc, makes.Makes = true, true
	for name, c := range map[string]struct {
		mode    string
		drivers map[string]driver.Networks
		maker   string
		refused string
	}{
		"it makes it":               {"bridge", map[string]driver.Networks{"a": makes, "b": joins}, "a", ""},
		"nobody makes it":           {"bridge", map[string]driver.Networks{"a": joins, "b": {}}, "", ""},
		"two make it":               {"bridge", map[string]driver.Networks{"a": makes, "b": makes}, "", "both insist"},
		"it cannot be there":        {"bridge", map[string]driver.Networks{"a": known}, "", `mode = "host"`},
		"it has none":               {"none", map[string]driver.Networks{"a": none}, "", ""},
		"it has none, and is asked": {"bridge", map[string]driver.Networks{"a": none}, "", `mode "bridge"`},
		"the node's own":            {"host", map[string]driver.Networks{"a": makes, "b": makes}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := &made{}
			a := &hook.Alloc{
				Alloc:   &alloc.Alloc{ID: "a"},
				Group:   &job.TaskGroup{Name: "web", Networks: []*job.NetworkResource{{Mode: c.mode}}},
				Network: new(hook.Network),
				Driver: func(name string) (driver.Info, error) {
					return driver.Info{Capabilities: driver.Capabilities{Networks: c.drivers[name]}}, nil
				},
				Emit: func(*alloc.TaskEvent) {},
			}
			for name := range c.drivers {
				a.Group.Tasks = append(a.Group.Tasks, &job.Task{Name: "t-" + name, Driver: name})
			}
			err := (&allochooks.Network{Networks: m}).Prerun(t.Context(), a)
			switch {
			case c.refused != "":
				if !fault.Has(err, fault.Unsupported) || !strings.Contains(err.Error(), c.refused) || len(m.wants) > 0 {
					t.Errorf("%+v, %v", m.wants, err)
				}
			case err != nil:
				t.Error(err)
			case c.mode != "host" && m.wants[0].Maker != c.maker:
				t.Errorf("made by %q", m.wants[0].Maker)
			}
		})
	}
}

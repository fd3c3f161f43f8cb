package external

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/port/driver"
	"berth/internal/port/pluginhost"
	"berth/pluginproto/driverpb"
)

// networksOf are the networks that tasks of a plugin can be in.
func networksOf(c *driverpb.DriverCapabilities) driver.Networks {
	modes := c.GetNetworkIsolationModes()
	return driver.Networks{
		Known: true,
		Host:  len(modes) == 0 || slices.Contains(modes, driverpb.NetworkIsolationMode_HOST),
		Alloc: slices.Contains(modes, driverpb.NetworkIsolationMode_GROUP),
		None:  slices.Contains(modes, driverpb.NetworkIsolationMode_NONE),
		Makes: c.GetMustCreateNetwork(),
	}
}

// remoteTasks is the number of a capability that the protocol has given up: tasks that run elsewhere, and go on when
// their node is lost.
const remoteTasks = 7

// unspoken refuses a plugin that relies on what is not spoken any more.
func (d *Driver) unspoken(c *driverpb.DriverCapabilities) error {
	for b := c.ProtoReflect().GetUnknown(); len(b) > 0; {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			break
		}
		b = b[n:]
		v, read := protowire.ConsumeVarint(b)
		if number == remoteTasks && kind == protowire.VarintType && read > 0 && v != 0 {
			return fault.WithHint(fault.New(fault.Unsupported, "use", d.host.Subject(),
				"its tasks are remote ones (remote_tasks): they do not run on the node, and two of them would where one is "+
					"to run when it is lost"), "use a version of the plugin whose tasks run on the node")
		}
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			break
		}
		b = b[n:]
	}
	return nil
}

// network is the alloc's network, as plugins know it.
func (s *connection) network(cfg *driver.TaskConfig) (*driverpb.NetworkIsolationSpec, error) {
	n, can := cfg.Network, s.info.Capabilities.Networks
	refuse := func(text, hint string) (*driverpb.NetworkIsolationSpec, error) {
		return nil, fault.WithHint(fault.New(fault.Unsupported, "", "network", text), hint)
	}
	switch {
	case n == nil || n.Namespace == "":
		return &driverpb.NetworkIsolationSpec{Mode: driverpb.NetworkIsolationMode_HOST}, nil
	case can.Alloc && n.By == s.info.Name && n.Made != nil:
		var spec driverpb.NetworkIsolationSpec // as it gave it itself
		err := proto.Unmarshal(n.Made.State, &spec)
		return &spec, fault.Wrap(err, fault.Invalid, "read", "the network that the plugin made")
	case can.Makes && can.Alloc:
		return refuse("the driver insists on making the network itself, and it was made before the driver said so",
			"have the allocation placed anew: berth alloc stop ID")
	case can.Alloc:
		return &driverpb.NetworkIsolationSpec{
			Mode:        driverpb.NetworkIsolationMode_GROUP,
			Path:        n.Namespace,
			Labels:      map[string]string{},
			HostsConfig: &driverpb.HostsConfig{Hostname: n.Hostname, Address: cfg.Address},
		}, nil
	case can.None && cfg.Address == "":
		return &driverpb.NetworkIsolationSpec{Mode: driverpb.NetworkIsolationMode_NONE}, nil
	}
	return refuse("tasks of the driver cannot be in their allocation's network", `use mode = "host", or another driver`)
}

// hosts is the file of names of the alloc's network, for tasks that would see another. How names are resolved, the
// driver is told by words: it may have a file of its own for that.
func (s *connection) hosts(n *driver.Network) (out []*driverpb.Mount) {
	c := s.info.Capabilities
	if c.FSIsolation == driver.IsolationNone || c.Mounts == driver.MountNone || n.By == s.info.Name {
		return nil
	}
	for _, f := range n.Files {
		if f.Target == "/etc/hosts" {
			out = append(out, &driverpb.Mount{TaskPath: f.Target, HostPath: f.Source, Readonly: f.ReadOnly})
		}
	}
	return out
}

// resolver is how names are resolved; nil: as the driver thinks fit.
func resolver(r driver.Resolver) *driverpb.DNSConfig {
	if len(r.Servers)+len(r.Searches)+len(r.Options) == 0 {
		return nil
	}
	return &driverpb.DNSConfig{Servers: r.Servers, Searches: r.Searches, Options: r.Options}
}

// MakeNetwork implements driver.NetworkMaker.
func (d *Driver) MakeNetwork(ctx context.Context, id ids.Alloc, hostname string) (*driver.MadeNetwork, error) {
	fail := func(err error) (*driver.MadeNetwork, error) {
		return nil, fault.Note(err, "have driver "+d.Name()+" make", "the network of allocation "+ids.Short(id))
	}
	s, err := d.soon(ctx)
	if err != nil {
		return fail(err)
	}
	ctx, cancel := context.WithTimeout(ctx, pluginhost.CallLimit)
	defer cancel()
	answer, err := s.rpc.CreateNetwork(ctx, &driverpb.CreateNetworkRequest{AllocId: string(id), Hostname: hostname})
	if err != nil {
		return fail(problem(err, "", ""))
	}
	spec := answer.GetIsolationSpec()
	if spec.GetPath() == "" {
		return fail(fault.New(fault.Invalid, "", "", "the plugin says of no path at which its namespace is held"))
	}
	state, err := proto.Marshal(spec)
	return &driver.MadeNetwork{Path: spec.GetPath(), State: state}, err
}

// EndNetwork implements driver.NetworkMaker. One that the plugin does not know is gone.
func (d *Driver) EndNetwork(ctx context.Context, id ids.Alloc, n *driver.MadeNetwork) error {
	spec := &driverpb.NetworkIsolationSpec{Mode: driverpb.NetworkIsolationMode_GROUP}
	if n != nil {
		if err := proto.Unmarshal(n.State, spec); err != nil {
			return fault.Wrap(err, fault.Invalid, "read", "the network that the plugin made")
		}
	}
	s, err := d.soon(ctx)
	if err == nil {
		limited, cancel := context.WithTimeout(ctx, pluginhost.CallLimit)
		defer cancel()
		_, err = s.rpc.DestroyNetwork(limited, &driverpb.DestroyNetworkRequest{
			AllocId:       string(id),
			IsolationSpec: spec,
		})
		if code := status.Code(err); code == codes.NotFound || code == codes.Unimplemented && n == nil {
			err = nil // it never made one
		}
		err = problem(err, "", "")
	}
	return fault.Note(err, "have driver "+d.Name()+" end", "the network of allocation "+ids.Short(id))
}

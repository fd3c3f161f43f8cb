package allochooks

import (
	"context"
	"fmt"
	"time"

	"berth/internal/base/fault"
	"berth/internal/client/hook"
	"berth/internal/client/networks"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/network"
	"berth/internal/port/driver"
)

// Network gives an alloc its network before its first task, and releases it after its last.
type Network struct{ Networks networks.Networks }

var (
	_ hook.Prerunner  = (*Network)(nil)
	_ hook.Postrunner = (*Network)(nil)
	_ hook.Waiter     = (*Network)(nil)
)

// Name implements hook.Hook.
func (*Network) Name() string { return "network" }

// WaitingEvent implements hook.Waiter.
func (*Network) WaitingEvent() string { return alloc.EventNetworkWaiting }

// Prerun makes the network. That the node has no room or is hindered is waited out; every try says what is in the way.
// A port that a program of the node has fails the alloc: another one may get another port, or another node.
func (h *Network) Prerun(ctx context.Context, a *hook.Alloc) error {
	want, err := askedNetwork(a)
	if want == nil || err != nil {
		return err
	}
	made, err := h.Networks.Make(ctx, *want)
	if err != nil {
		return err
	}
	for _, text := range made.Warnings {
		a.Emit(&alloc.TaskEvent{
			Type:           alloc.EventNetwork,
			Time:           time.Now().UnixNano(),
			DisplayMessage: text,
			Message:        text,
		})
	}
	a.Network.Set(&made.Network, made.Status)
	return nil
}

// Postrun releases the network.
func (h *Network) Postrun(ctx context.Context, a *hook.Alloc) error {
	return h.Networks.Release(ctx, a.Alloc.ID)
}

// askedNetwork is what the alloc's group asks for; nil: the node's own network, as it is.
func askedNetwork(a *hook.Alloc) (*networks.Want, error) {
	for _, n := range a.Group.Networks {
		if n.OfNode() {
			continue
		}
		w := &networks.Want{Alloc: a.Alloc.ID, Mode: n.Mode, Ports: a.Alloc.Resources.Ports, DNS: n.DNS}
		err := checkEtc(a, n)
		if err == nil {
			w.Maker, err = maker(a, n)
		}
		if err != nil {
			return nil, err
		}
		if w.Args, err = pluginArgs(a, n.CNI); err != nil || n.Hostname == "" {
			return w, err
		}
		if w.Hostname, err = a.Interpolate(n.Hostname); err != nil {
			return nil, fault.Note(err, "name the host of", fmt.Sprintf("group %q", a.Group.Name))
		}
		if why := network.BadHostname(w.Hostname); why != "" {
			return nil, fault.New(fault.Invalid, "name the host of", fmt.Sprintf("group %q", a.Group.Name),
				fmt.Sprintf("%.100q is no name for it: %s", w.Hostname, why))
		}
		return w, nil
	}
	return nil, nil
}

// pluginArgs are the arguments to CNI plugins, with ${…} filled in.
func pluginArgs(a *hook.Alloc, c *job.CNI) (map[string]string, error) {
	if c == nil {
		return nil, nil
	}
	args := map[string]string{}
	for k, v := range c.Args {
		text, err := a.Interpolate(v)
		if err != nil {
			return nil, fault.Note(err, "read cni args of", fmt.Sprintf("group %q", a.Group.Name))
		}
		args[k] = text
	}
	if why := network.BadCNI(a.Group.Networks[0].Mode, args); why != "" { // what is filled in may hold anything
		return nil, fault.New(fault.Invalid, "read cni args of", fmt.Sprintf("group %q", a.Group.Name), why)
	}
	return args, nil
}

// maker is the driver that has to make the group's network namespace; empty: none has to. Drivers whose tasks cannot be
// in the group's network are refused.
func maker(a *hook.Alloc, n *job.NetworkResource) (name string, err error) {
	mode := n.Mode
	if mode == "" || mode == network.ModeHost {
		return "", nil
	}
	subject := fmt.Sprintf("group %q", a.Group.Name)
	for _, t := range a.Group.Tasks {
		info, err := a.Driver(t.Driver)
		if err != nil {
			return "", err
		}
		can := info.Capabilities.Networks
		switch {
		case can.Known && !can.Alloc && !(can.None && mode == network.ModeNone):
			return "", fault.WithHint(fault.New(fault.Unsupported, "make the network of", subject,
				fmt.Sprintf("tasks of driver %q, such as %q, cannot be in one of mode %q", t.Driver, t.Name, mode)),
				`use mode = "host" in the group's network, or another driver`)
		case can.Makes && name != "" && name != t.Driver:
			return "", fault.WithHint(fault.New(fault.Unsupported, "make the network of", subject,
				fmt.Sprintf("drivers %q and %q both insist on making it", name, t.Driver)),
				"have their tasks in groups of their own")
		case can.Makes:
			name = t.Driver
		}
	}
	return name, nil
}

// checkEtc refuses, on the node too, what tasks that see the node's own /etc would not notice.
func checkEtc(a *hook.Alloc, n *job.NetworkResource) error {
	if n.Hostname == "" && n.DNS == nil {
		return nil
	}
	for _, t := range a.Group.Tasks {
		info, err := a.Driver(t.Driver)
		if err != nil {
			return err
		}
		if info.Capabilities.FSIsolation == driver.IsolationNone {
			return fault.WithHint(
				fault.New(fault.Unsupported, "set hostname and dns of", fmt.Sprintf("group %q", a.Group.Name),
					fmt.Sprintf("task %q of driver %q sees the node's own /etc and name", t.Name, t.Driver)),
				"leave both out of the group's network, or use a driver whose tasks have a root of their own, such as exec")
		}
	}
	return nil
}

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
)

// Name implements hook.Hook.
func (*Network) Name() string { return "network" }

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
func (h *Network) Postrun(_ context.Context, a *hook.Alloc) error {
	return h.Networks.Release(a.Alloc.ID)
}

// askedNetwork is what the alloc's group asks for; nil: the node's own network, as it is.
func askedNetwork(a *hook.Alloc) (*networks.Want, error) {
	for _, n := range a.Group.Networks {
		if n.OfNode() {
			continue
		}
		w := &networks.Want{Alloc: a.Alloc.ID, Mode: n.Mode, Ports: a.Alloc.Resources.Ports, DNS: n.DNS}
		if err := checkEtc(a, n); err != nil {
			return nil, err
		}
		if n.Hostname == "" {
			return w, nil
		}
		var err error
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

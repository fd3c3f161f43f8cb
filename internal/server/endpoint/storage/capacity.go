package storage

import (
	"context"
	"fmt"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/base/sizes"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/state"
	"berth/internal/server/volumes"
	"berth/internal/wire"
)

// askWait bounds a question to a provider without whose answer a write goes on.
const askWait = 10 * time.Second

// withinProvider refuses a size that the volume's provider cannot give it, before anything is recorded (CSI spec,
// GetCapacity). A plugin that does not say it, or not now, is asked for the size itself.
func (e *Endpoints) withinProvider(
	ctx context.Context, s *state.Snap, v *volume.Volume, size int64, op string,
) error {
	rec := s.Plugin(nil, v.Spec.Plugin)
	if size <= v.Status.Capacity || rec == nil || !rec.Controller.GetCapacity {
		return nil
	}
	ask := &wire.CapacityRequest{
		Plugin:       v.Spec.Plugin,
		Provider:     v.Status.Provider,
		Parameters:   v.Spec.Parameters,
		Capabilities: v.Spec.Capabilities,
		MountOptions: v.Spec.MountOptions,
	}
	if rec.Topology && len(v.Status.Topologies) > 0 {
		ask.Topology = v.Status.Topologies[0].Segments
	}
	wctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	var left *wire.CapacityReply
	err := e.onExecutor(s, v, func(n ids.Node, c wire.Conn) (err error) {
		ask.Node = n
		left, err = wire.AgentCapacity.Call(wctx, c, ask)
		return err
	})
	if err != nil {
		e.cfg.Log.Debug("a provider did not say what it has left", logkey.Plugin, v.Spec.Plugin, logkey.Error, err)
		return ctx.Err()
	}
	most := bound(v.Status.Capacity, left)
	if most == 0 || size <= most {
		return nil
	}
	more, can := sizes.Differing(size, most)
	return fault.WithHint(
		fault.New(fault.Conflict, op, `volume "`+v.ID.String()+`"`,
			fmt.Sprintf("requested capacity of %s is more than the %s that its provider can give it", more, can)),
		"ask for that at most, or make room at the provider")
}

// bound is the size to which a volume can grow; 0: it is not known. A maximum below what is left is one of the
// provider's for each volume; else a new volume can have all that is left, and one that is there that much more.
func bound(size int64, left *wire.CapacityReply) int64 {
	switch {
	case left.MaximumVolume == 0:
		return 0
	case left.MaximumVolume < left.Available:
		return max(left.MaximumVolume, size)
	}
	return max(left.MaximumVolume, size+left.Available)
}

// onExecutor calls a node that can make controller calls for a volume.
func (e *Endpoints) onExecutor(s *state.Snap, v *volume.Volume, call func(ids.Node, wire.Conn) error) error {
	home := v.Status.HomeNode
	if rec := s.Plugin(nil, v.Spec.Plugin); home == "" && rec != nil && rec.Scope == plugin.ScopeNode {
		home = volumes.Place(s, v)
	}
	executor, why := e.cfg.Controllers.Executor(s, v.Spec.Plugin, home)
	if executor == "" {
		return fault.New(fault.NotReady, "ask", `plugin "`+string(v.Spec.Plugin)+`"`, why)
	}
	conn, err := e.cfg.Nodes.NodeConn(executor)
	if err != nil {
		return err
	}
	return call(executor, conn)
}

// listedPages bounds how much of a provider's list is read to find one volume.
const listedPages = 100

// listedCapacity is the size of a volume as its provider lists it; 0: it is not known.
func (e *Endpoints) listedCapacity(ctx context.Context, s *state.Snap, v *volume.Volume) int64 {
	rec := s.Plugin(nil, v.Spec.Plugin)
	if rec == nil || !rec.Controller.ListVolumes {
		return 0
	}
	wctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	var size int64
	err := e.onExecutor(s, v, func(n ids.Node, c wire.Conn) error {
		ask := &wire.PluginReadRequest{Node: n, Plugin: v.Spec.Plugin, Provider: v.Status.Provider}
		for range listedPages {
			page, err := wire.AgentListVolumes.Call(wctx, c, ask)
			if err != nil {
				return err
			}
			for _, item := range page.Items {
				if item.ExternalID == v.Status.ExternalID {
					size = max(item.Capacity, 0)
					return nil
				}
			}
			if ask.NextToken = page.NextToken; ask.NextToken == "" {
				return nil
			}
		}
		return nil
	})
	if err != nil {
		e.cfg.Log.Debug("a provider did not list its volumes", logkey.Plugin, v.Spec.Plugin, logkey.Error, err)
	}
	return size
}

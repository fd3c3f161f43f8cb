// Package external owns device plugins that are programs of their own, as others wrote them: it has package pluginhost
// keep their processes, and speaks the public protocol of devices with them. The client makes one for each.
package external

import (
	"context"
	"errors"
	"io"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/base/retry"
	model "berth/internal/model/device"
	"berth/internal/port/device"
	"berth/internal/port/pluginhost"
	"berth/pluginproto/devicepb"
)

// Config of a device plugin.
type Config struct {
	pluginhost.Config
	// Holds reports whether a task has devices of the plugin: then it outlives the agent.
	Holds func(name string) bool
}

// Plugin is a device.Plugin whose work a program does.
type Plugin struct {
	cfg  Config
	host *pluginhost.Host
	say  func(device.State) // of Follow

	mu    sync.Mutex
	now   *connection // nil: the plugin is not connected
	why   error       // then: for what reason
	last  []model.Group
	stats []model.Stats
}

var _ device.Plugin = (*Plugin)(nil)

// New returns a plugin that does nothing before Follow.
func New(cfg Config) *Plugin {
	p := &Plugin{cfg: cfg}
	p.host = pluginhost.New(cfg.Config, pluginhost.Use{
		Kind: pluginhost.Device,
		Open: func(_ context.Context, at *pluginhost.Process) (pluginhost.Connection, error) {
			return &connection{p: p, rpc: devicepb.NewDevicePluginClient(at.Conn)}, nil
		},
		Lost:    p.lost,
		Answers: p.answers,
		Holds:   func() bool { return cfg.Holds != nil && cfg.Holds(p.Name()) },
	})
	p.why = fault.New(fault.NotReady, "use", p.host.Subject(), "it is being started")
	return p
}

// Name implements device.Plugin.
func (p *Plugin) Name() string { return p.host.Name() }

// Version is that of the plugin, as it says; empty: it was not there yet.
func (p *Plugin) Version() string { return p.host.Version() }

// Follow implements device.Plugin.
func (p *Plugin) Follow(ctx context.Context, say func(device.State)) error {
	p.say = say
	return p.host.Run(ctx)
}

// lost hears why the plugin is not there.
func (p *Plugin) lost(err error) {
	p.mu.Lock()
	p.now, p.why = nil, err
	p.stats = nil
	state := device.State{Reason: p.host.Subject() + " is not there: " + err.Error(), Groups: p.last}
	p.mu.Unlock()
	p.say(state)
}

// answers hears whether the plugin, which is connected, answers. While it does not nobody can be given what it offers.
func (p *Plugin) answers(why error) {
	p.mu.Lock()
	connected, state := p.now != nil, device.State{Groups: p.last}
	if connected {
		p.why = why
	}
	p.mu.Unlock()
	if why != nil {
		state.Reason = why.Error()
	}
	if connected { // otherwise it is said already why not
		p.say(state)
	}
}

// Reserve implements device.Plugin.
func (p *Plugin) Reserve(ctx context.Context, ids []string) (*device.Provided, error) {
	p.mu.Lock()
	s, why := p.now, p.why
	p.mu.Unlock()
	if why != nil {
		return nil, fault.WithHint(fault.Wrap(why, fault.NotReady, "use", p.host.Subject()),
			"what it said stands in "+p.host.StderrPath())
	}
	ctx, cancel := context.WithTimeout(ctx, pluginhost.CallLimit)
	defer cancel()
	answer, err := s.rpc.Reserve(ctx, &devicepb.ReserveRequest{DeviceIds: ids})
	if err != nil {
		return nil, pluginhost.Problem(err, "reserve", "devices "+list(ids))
	}
	return provided(answer.GetContainerRes())
}

// Stats implements device.Plugin.
func (p *Plugin) Stats() []model.Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats // they are replaced, never edited
}

// connection is one process of the plugin that is connected.
type connection struct {
	p   *Plugin
	rpc devicepb.DevicePluginClient
}

// Follow implements pluginhost.Connection: it tells which devices the plugin finds, and keeps its figures.
func (s *connection) Follow(ctx context.Context) error {
	defer s.p.away()
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("fingerprints", func() error {
		defer g.Stop()
		return s.fingerprints(gctx)
	})
	g.Go("stats", func() error { return s.stats(gctx) })
	return g.Wait()
}

// away says of a connection that ended that there is none.
func (p *Plugin) away() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now, p.why = nil, fault.New(fault.NotReady, "use", p.host.Subject(), "it is being started again")
}

// seldom is how long a plugin's next word on its devices waits for the one before: each may be a write of the servers.
const seldom = time.Second

func (s *connection) fingerprints(ctx context.Context) error {
	stream, err := s.rpc.Fingerprint(ctx, &devicepb.FingerprintRequest{})
	if err != nil {
		return pluginhost.Problem(err, "ask", "which devices it finds")
	}
	latest := make(chan []model.Group, 1)
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("say", func() error {
		for {
			select {
			case <-gctx.Done():
				return nil
			case groups := <-latest:
				s.found(groups)
				retry.Sleep(gctx, seldom)
			}
		}
	})
	g.Go("hear", func() error {
		for {
			f, err := stream.Recv()
			switch {
			case ctx.Err() != nil:
				return nil
			case errors.Is(err, io.EOF):
				return fault.New(fault.Unavailable, "use", s.p.host.Subject(),
					"it stopped saying which devices it finds")
			case err != nil:
				return pluginhost.Problem(err, "hear", "which devices it finds")
			}
			found, err := groups(f.GetDeviceGroup())
			if err != nil {
				return fault.Note(err, "use", s.p.host.Subject())
			}
			select {
			case <-latest: // nobody has read it yet, and it is not true any more
			default:
			}
			latest <- found
		}
	})
	return g.Wait()
}

// found passes on what the plugin found. From its first word on it can be asked for devices.
func (s *connection) found(groups []model.Group) {
	s.p.mu.Lock()
	s.p.now, s.p.why = s, nil
	s.p.last = groups
	s.p.mu.Unlock()
	s.p.say(device.State{Groups: groups})
}

// statsPeriod is how often a plugin is asked to report figures. Whoever reads them gets the last ones.
const statsPeriod = 5 * time.Second

// stats keeps the figures that the plugin reports. One that has none is as good.
func (s *connection) stats(ctx context.Context) error {
	stream, err := s.rpc.Stats(ctx, &devicepb.StatsRequest{CollectionInterval: durationpb.New(statsPeriod)})
	for err == nil {
		var r *devicepb.StatsResponse
		if r, err = stream.Recv(); err == nil {
			figures := stats(r.GetGroups())
			s.p.mu.Lock()
			s.p.stats = figures
			s.p.mu.Unlock()
		}
	}
	if ctx.Err() == nil && status.Code(err) != codes.Unimplemented {
		s.p.cfg.Log.Info("a device plugin reports no figures any more", string(pluginhost.Device), s.p.Name(),
			logkey.Error, err)
	}
	return nil
}

func list(ids []string) string {
	text := ""
	for i, id := range ids {
		if i > 0 {
			text += ", "
		}
		text += strconv.Quote(pluginhost.Clip(id))
	}
	return text
}

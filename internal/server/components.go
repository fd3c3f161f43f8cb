package server

import (
	"context"
	"path/filepath"
	"runtime"

	"berth/internal/model/trust"
	"berth/internal/server/claims"
	"berth/internal/server/consultokens"
	"berth/internal/server/controllers"
	"berth/internal/server/deploy"
	"berth/internal/server/endpoint"
	"berth/internal/server/endpoint/workloads"
	"berth/internal/server/gateways"
	"berth/internal/server/gc"
	"berth/internal/server/health"
	"berth/internal/server/heartbeat"
	"berth/internal/server/keyring"
	"berth/internal/server/launch"
	"berth/internal/server/locks"
	"berth/internal/server/lostservices"
	"berth/internal/server/membership"
	"berth/internal/server/volumes"
	"berth/internal/server/worker"
)

// components are what stands on the log: the endpoints are served always, the others run while this server leads.
type components struct {
	heartbeats *heartbeat.Timers
	keys       *keyring.Keys
	signing    *keyring.Signing
	authority  *keyring.Authority
	collector  *gc.Collector
	scheduling *worker.Scheduling
	health     *health.Keeper
	deploy     *deploy.Keeper
	claims     *claims.Keeper
	inConsul   inConsul
	volumes    *volumes.Keeper
	membership *membership.Keeper
	locks      *locks.Keeper
	launch     *launch.Keeper
	dispatcher *controllers.Dispatcher
	endpoints  *endpoint.Endpoints
}

// inConsul are those that speak with Consul.
type inConsul struct {
	tokens   *consultokens.Keeper
	lost     *lostservices.Keeper
	gateways *gateways.Keeper
}

// listing are the servers, and who changes which they are.
type listing struct {
	roster
	keeper *membership.Keeper
}

// TakeOff implements joining.Servers.
func (l listing) TakeOff(ctx context.Context, name string, atOnce func(*trust.Member) bool) (uint64, error) {
	return l.keeper.TakeOff(ctx, name, atOnce)
}

// components makes them all. They do nothing before they are run.
func (s *Server) components(ring *keyring.Keyring) *components {
	dispatcher := controllers.New()
	secrets := secretStore{keyring: ring, store: s.store}
	c := &components{
		dispatcher: dispatcher,
		heartbeats: heartbeat.New(heartbeat.Config{
			Store:    s.store,
			Proposer: s,
			Log:      s.cfg.Log,
			TTL:      s.cfg.HeartbeatTTL,
			Grace:    s.cfg.HeartbeatGrace,
			Endless:  s.cfg.Dev,
		}),
		keys: &keyring.Keys{
			Keyring:  ring,
			Store:    s.store,
			Proposer: s,
			Name:     s.cfg.Name,
			Recovery: s.cfg.Recovery,
			Ages:     s.cfg.KeyAges,
			Dev:      s.cfg.Dev,
			Log:      s.cfg.Log,
		},
		signing: &keyring.Signing{Keyring: ring, Store: s.store, Proposer: s, Log: s.cfg.Log},
		authority: &keyring.Authority{
			Keyring:  ring,
			Store:    s.store,
			Proposer: s,
			Lifetime: s.cfg.CertificateLifetime,
			Log:      s.cfg.Log,
		},
		membership: &membership.Keeper{
			Name:     s.cfg.Name,
			Store:    s.store,
			Raft:     s.log,
			Raise:    s.raiseSchema,
			Ask:      roster{s}.progressOf,
			Contacts: s.log.Contacts,
			Proposer: s,
			Expect:   s.cfg.Expect,
			Log:      s.cfg.Log,
		},
		collector:  gc.New(s.store, s, s.ages, s.cfg.Log),
		scheduling: worker.New(s.store, s, runtime.NumCPU(), s.cfg.Log),
		locks:      locks.New(s.store, s, s.cfg.Log),
		launch:     launch.New(s.store, s, s.cfg.Log),
		health:     health.New(health.Config{Store: s.store, Proposer: s, Log: s.cfg.Log}),
		deploy:     deploy.New(deploy.Config{Store: s.store, Proposer: s, Log: s.cfg.Log}),
		claims: claims.New(claims.Config{
			Store:    s.store,
			Proposer: s,
			Dispatch: dispatcher,
			Secrets:  secrets,
			Nodes:    s.nodes,
			Log:      s.cfg.Log,
		}),
		inConsul: s.inConsul(),
		volumes: volumes.New(volumes.Config{
			Store:    s.store,
			Proposer: s,
			Dispatch: dispatcher,
			Secrets:  secrets,
			Nodes:    s.nodes,

			ListPeriod:     s.cfg.VolumeListInterval,
			AlphaGetVolume: s.cfg.AlphaGetVolume,

			Log: s.cfg.Log,
		}),
	}
	c.endpoints = endpoint.New(endpoint.Config{
		Store:         s.store,
		Proposer:      s,
		Cluster:       s,
		Heartbeats:    c.heartbeats,
		Planner:       c.scheduling,
		Collector:     c.collector,
		Controllers:   dispatcher,
		Nodes:         s.nodes,
		Secrets:       secrets,
		Restorer:      s,
		Keyring:       ring,
		Keys:          c.keys,
		Authority:     c.authority,
		TokenLifetime: s.cfg.TokenLifetime,
		ResetFile:     filepath.Join(s.cfg.DataDir, "acl-bootstrap-reset"),
		Servers:       listing{roster{s}, c.membership},
		Wraps:         ring,
		Variables:     secrets,
		VariableMost:  s.cfg.Variables,
		Locks:         c.locks,
		Entries:       c.inConsul.gateways,
		ForConsul:     s.cfg.ForConsul,
		Identities: workloads.Config{
			Signer: &keyring.Signer{Keyring: ring, Store: s.store, Proposer: s},
			Region: s.cfg.Region,
			Issuer: s.cfg.Issuer,
			Tokens: c.inConsul.tokens,
			Record: s.cfg.Record,
		},
		Log: s.cfg.Log,
	})
	return c
}

// inConsul makes what speaks with Consul, which has nothing to do where this server has no agent of it.
func (s *Server) inConsul() inConsul {
	services := lostservices.Config{Store: s.store, Newest: s.log.Barrier, Log: s.cfg.Log}
	entries := gateways.Config{Store: s.store, Newest: s.log.Barrier, Log: s.cfg.Log}
	if s.cfg.Consul != nil {
		services.Catalog, entries.Consul = s.cfg.Consul, s.cfg.Consul
	}
	return inConsul{
		tokens: consultokens.New(consultokens.Config{
			Store:    s.store,
			Proposer: s,
			Consul:   s.cfg.Tokens,
			Log:      s.cfg.Log,
		}),
		lost:     lostservices.New(services),
		gateways: gateways.New(entries),
	}
}

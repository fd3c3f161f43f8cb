// Package storage owns the answers to what users ask of volumes, snapshots and plugins. What takes longer than a
// command is recorded as an intent that a keeper carries out. Only package endpoint constructs it.
package storage

import (
	"log/slog"

	"berth/internal/base/redact"
	"berth/internal/server/controllers"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/fsm"
	"berth/internal/wire"
)

// Secrets opens and seals entries of the secret store.
type Secrets interface {
	controllers.Secrets
	// Seal encrypts values for storing under a name.
	Seal(name string, values redact.Map) ([]byte, error)
}

// Config names what the endpoints stand on.
type Config struct {
	serving.Base
	Proposer    fsm.Proposer
	Controllers *controllers.Dispatcher
	Nodes       controllers.Nodes
	Secrets     Secrets
	Log         *slog.Logger
}

// Endpoints answer methods.
type Endpoints struct{ cfg Config }

// New returns endpoints; Register lets them answer.
func New(cfg Config) *Endpoints { return &Endpoints{cfg: cfg} }

// Register adds the handlers to a server.
func (e *Endpoints) Register(s *wire.Server) {
	serving.Unary(e.cfg.Base, s, wire.VolumeCreate, e.volumeCreate)
	serving.Unary(e.cfg.Base, s, wire.VolumeRegister, e.volumeRegister)
	serving.Unary(e.cfg.Base, s, wire.VolumeExpand, e.volumeExpand)
	serving.Unary(e.cfg.Base, s, wire.VolumeDelete, e.volumeDelete)
	serving.Unary(e.cfg.Base, s, wire.VolumeDeregister, e.volumeDeregister)
	serving.Unary(e.cfg.Base, s, wire.VolumeDetach, e.volumeDetach)
	serving.Unary(e.cfg.Base, s, wire.VolumeRelease, e.volumeRelease)
	serving.Unary(e.cfg.Base, s, wire.VolumeGet, e.volumeGet)
	serving.Unary(e.cfg.Base, s, wire.VolumeUsages, e.volumeUsage)
	serving.Unary(e.cfg.Base, s, wire.VolumeList, e.volumeList)
	serving.Unary(e.cfg.Base, s, wire.VolumeExternal, e.volumeExternal)
	serving.Unary(e.cfg.Base, s, wire.SnapshotCreate, e.snapshotCreate)
	serving.Unary(e.cfg.Base, s, wire.SnapshotDelete, e.snapshotDelete)
	serving.Unary(e.cfg.Base, s, wire.SnapshotList, e.snapshotList)
	serving.Unary(e.cfg.Base, s, wire.PluginGet, e.pluginGet)
	serving.Unary(e.cfg.Base, s, wire.PluginList, e.pluginList)
	serving.Unary(e.cfg.Base, s, wire.PluginRebind, e.pluginRebind)
}

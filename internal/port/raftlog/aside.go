package raftlog

import (
	"errors"
	"os"
	"path/filepath"

	"berth/internal/base/durable"
	"berth/internal/base/logkey"
)

const (
	// asideFile, in the directory of the log, keeps room for term and vote: a server of several that could not write
	// them on a full disk would neither follow a new leader nor know that there is one.
	asideFile = "aside"
	asideSize = 1 << 20
)

// setAside keeps that room, where there is more than the reserve. Without it a stable write waits on a full disk.
func (g *guard) setAside() {
	if g.votes == nil || g.aside.Load() || g.available() != nil {
		return
	}
	path := filepath.Join(g.dir, asideFile)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err == nil {
		lacks, failed := durable.SetAside(f, asideSize)
		err = errors.Join(lacks, failed, f.Close())
	}
	if err != nil {
		g.log.Debug("no room is set aside for term and vote", logkey.Path, path, logkey.Error, err)
	}
	g.aside.Store(true) // or tried; what is of it is given
}

// giveAside gives that room up; false: there was none.
func (g *guard) giveAside() bool {
	err := os.Remove(filepath.Join(g.dir, asideFile))
	g.aside.Store(false)
	return g.votes != nil && err == nil
}

// Package lostvolumes owns a person's word that the volumes of a node's bundled plugin are lost, in a data directory
// that no agent uses. Only the main program imports it.
package lostvolumes

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"berth/internal/agent/bundled"
	"berth/internal/agent/datadir"
	"berth/internal/base/fault"
	"berth/internal/base/volumestore"
	"berth/internal/client/identity"
	"berth/internal/client/localstate"
	"berth/internal/port/raftlog/files"
	"berth/internal/server"
)

const what = "give up the volumes of"

// Forget has a node begin with what is at the place of its volumes, if a start would refuse that. agree is asked before
// anything is changed: why it is refused, and which volumes of this node the servers know.
func Forget(dataDir, volumes string, agree func(refused error, known []string) error) (err error) {
	if _, err := os.Stat(dataDir); err != nil {
		return fault.WithHint(fault.Wrap(err, fault.NotFound, what, dataDir), "name the data_dir of an agent")
	}
	release, refused, err := datadir.Hold(dataDir, os.Geteuid())
	if err != nil || refused != nil {
		return errors.Join(err, refused)
	}
	defer func() { err = errors.Join(err, release()) }()
	known, err := volumesOf(dataDir)
	if err != nil {
		return err
	}
	refused = volumestore.Judge(volumes, volumestore.Copy(volumes))
	begun, err := volumestore.Begun(volumes)
	switch {
	case err != nil:
		return err
	case refused != nil && !fault.Has(refused, fault.Conflict) && !fault.Has(refused, fault.NotReady):
		return refused // it says what to do
	case refused == nil && (begun || len(known) == 0), fault.Has(refused, fault.NotReady) && len(known) == 0:
		return fault.WithHint(fault.New(fault.Conflict, what, dataDir, "its store is not missing"), "start the agent")
	case refused == nil:
		refused = fault.New(fault.Conflict, "serve volumes from", volumes, "it is empty")
	}
	if err := agree(refused, known); err != nil {
		return err
	}
	return volumestore.Forget(volumes)
}

// volumesOf are the volumes of a node that its own servers know, by namespace and id, in their order.
func volumesOf(dataDir string) (out []string, err error) {
	servers := filepath.Join(dataDir, "server")
	if !files.Begun(filepath.Join(servers, "raft")) {
		return nil, nil
	}
	who, damaged, err := localstate.IdentityBeside(identity.StoreDir(dataDir))
	switch {
	case err != nil:
		return nil, err
	case damaged || who.Node == "":
		return nil, fault.WithHint(fault.New(fault.Conflict, what, dataDir, "nothing says which node it is of"),
			"start the agent first: it says what to do")
	}
	made, err := server.Replay(servers)
	if err != nil {
		return nil, err
	}
	for v := range made.State.VolumesByPlugin(nil, bundled.PluginID) {
		if volumestore.OfNode(v.Status.ExternalID, string(who.Node)) {
			out = append(out, v.ID.String())
		}
	}
	slices.Sort(out)
	return out, nil
}

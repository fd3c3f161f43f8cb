package storage

import (
	"context"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// unknownSnapshot makes the record by which a snapshot is deleted that the provider has and the servers do not know: it
// was cut after their state was saved, or by others. The provider's list says that it exists and what it was cut from;
// what is not listed is not guessed at.
func (e *Endpoints) unknownSnapshot(
	ctx context.Context, s *state.Snap, r *wire.SnapshotDeleteRequest,
) (*volume.Snapshot, error) {
	missing := func(hint string) error {
		return fault.WithHint(
			fault.New(fault.NotFound, "delete", `snapshot "`+r.SnapshotID+`"`, "snapshot not found"), hint)
	}
	rec := s.Plugin(nil, r.Plugin)
	if rec == nil || !rec.Controller.ListSnapshots {
		return nil, missing("list those that the servers know with: berth volume snapshot list -plugin " +
			string(r.Plugin))
	}
	found, silent, err := e.findSnapshot(ctx, rec, r)
	switch {
	case err != nil:
		return nil, err
	case found == nil && len(silent) > 0:
		return nil, missing("it may be on a node that does not answer: " + strings.Join(silent, ", "))
	case found == nil:
		return nil, missing("list them with: berth volume snapshot list -plugin " + string(r.Plugin))
	}
	return found, nil
}

// findSnapshot looks for a snapshot in a provider's list, and names the nodes that could not be asked.
func (e *Endpoints) findSnapshot(
	ctx context.Context, rec *plugin.Record, r *wire.SnapshotDeleteRequest,
) (found *volume.Snapshot, silent []string, err error) {
	page := func(n ids.Node, c wire.Conn, token string) (string, error) {
		page, err := wire.AgentListSnapshots.Call(ctx, c, &wire.PluginReadRequest{
			Node:      n,
			Plugin:    r.Plugin,
			Provider:  rec.Provider,
			PerPage:   snapshotPage,
			NextToken: token,
			Secrets:   r.Secrets,
		})
		if err != nil {
			return "", err
		}
		for _, sn := range page.Items {
			if sn.ExternalID == r.SnapshotID {
				found = e.recordOf(sn, rec, n)
			}
		}
		return page.NextToken, nil
	}
	seen := map[string]bool{}
	for token := ""; found == nil; seen[token] = true {
		next, incomplete, err := e.askProvider(r.Plugin, token, page)
		if err != nil {
			return nil, silent, err
		}
		silent = append(silent, incomplete...)
		if token = next; token == "" || seen[token] { // a provider that repeats a token would never end
			break
		}
	}
	return found, silent, nil
}

// snapshotPage is how many snapshots one page of a search has.
const snapshotPage = 500

// recordOf is the record of a snapshot that a provider lists.
func (e *Endpoints) recordOf(sn *volume.Snapshot, rec *plugin.Record, on ids.Node) *volume.Snapshot {
	n := *sn
	n.ID = volume.FoundSnapshotID(volume.StagingKey{Plugin: rec.ID, ExternalID: sn.ExternalID})
	n.Name = sn.ExternalID
	n.Plugin = rec.ID
	n.Provider = rec.Provider
	n.Namespace = ids.DefaultNamespace
	n.Phase, n.Presence = volume.PhaseReady, volume.Present
	if rec.Scope == plugin.ScopeNode {
		n.HomeNode = on
	}
	src := e.cfg.Store.Snapshot().VolumeOf(nil, volume.StagingKey{Plugin: rec.ID, ExternalID: sn.SourceExternalID})
	if src != nil {
		n.Source, n.Namespace = src.ID.ID, src.ID.Namespace
	}
	return &n
}

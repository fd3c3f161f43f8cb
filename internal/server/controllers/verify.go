package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Bounds of reading a provider's list: how long it may take altogether, and how much is asked at once.
const (
	verifyTimeout = time.Minute
	verifyPage    = 1000
)

// Verifier settles what a plugin's "not found" to an undo means: by the specification it proves nothing, so the
// provider's own list decides. Its methods return nil when the undo is proven, else what stands against it.
type Verifier struct {
	Store *state.Store
	Nodes Nodes
}

// Detached proves that an attachment is gone: its volume is not listed, or not as published to the node.
func (v Verifier) Detached(ctx context.Context, a *volume.Attachment, executor, home ids.Node, provider string) error {
	src := source{plugin: a.Plugin, provider: provider, home: home}
	rec, err := v.lister(src, func(r *plugin.Record) bool { return r.Controller.ListVolumes })
	if err != nil {
		return err
	}
	found, err := v.find(ctx, executor, src, a.ExternalID)
	subject := `volume "` + a.ExternalID + `"`
	switch {
	case err != nil:
		return err
	case found == nil:
		return nil
	case !rec.Controller.ListPublishedNodes:
		return fault.New(fault.Busy, "", subject,
			"it exists, and the plugin does not list to which nodes it is attached")
	case slices.Contains(found.PublishedNodes, a.StorageNode):
		return fault.New(fault.Busy, "", subject,
			fmt.Sprintf("the provider lists it as attached to node %q", a.StorageNode))
	}
	return nil
}

// Deleted proves that a volume is gone: it is not listed.
func (v Verifier) Deleted(ctx context.Context, vol *volume.Volume, executor ids.Node) error {
	src := source{plugin: vol.Spec.Plugin, provider: vol.Status.Provider, home: vol.Status.HomeNode}
	external := vol.Status.ExternalID
	if external == "" {
		return fault.New(fault.Unsupported, "", `volume "`+vol.ID.String()+`"`,
			"its id at the provider holds a secret, and is not looked for in a list")
	}
	if _, err := v.lister(src, func(r *plugin.Record) bool { return r.Controller.ListVolumes }); err != nil {
		return err
	}
	found, err := v.find(ctx, executor, src, external)
	if err == nil && found != nil {
		err = fault.New(fault.Busy, "", `volume "`+external+`"`, "the provider still lists it")
	}
	return err
}

// SnapshotDeleted proves that a snapshot is gone: it is not listed.
func (v Verifier) SnapshotDeleted(
	ctx context.Context, sn *volume.Snapshot, executor ids.Node, secrets wire.Secrets,
) error {
	if sn.ExternalID == "" {
		return fault.New(fault.Unsupported, "", "snapshot "+sn.Name,
			"its id at the provider holds a secret, and is not looked for in a list")
	}
	src := source{plugin: sn.Plugin, provider: sn.Provider, home: sn.HomeNode}
	if _, err := v.lister(src, func(r *plugin.Record) bool {
		return r.Controller.ListSnapshots
	}); err != nil {
		return err
	}
	conn, err := v.Nodes.NodeConn(executor)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	found := false
	err = pages(func(token string) (string, error) {
		page, err := wire.AgentListSnapshots.Call(ctx, conn, &wire.PluginReadRequest{
			Node:      executor,
			Plugin:    sn.Plugin,
			Provider:  sn.Provider,
			PerPage:   verifyPage,
			NextToken: token,
			Secrets:   secrets,
		})
		if err != nil {
			return "", err
		}
		for _, o := range page.Items {
			if strings.Contains(o.ExternalID, redact.Mask) {
				return "", maskedID()
			}
			found = found || o.ExternalID == sn.ExternalID
		}
		return page.NextToken, nil
	})
	if err == nil && found {
		err = fault.New(fault.Busy, "", `snapshot "`+sn.ExternalID+`"`, "the provider still lists it")
	}
	return err
}

// maskedID says why a list proves nothing.
func maskedID() error {
	return fault.New(fault.Unsupported, "", "the provider's list",
		"an id in it holds a secret and is masked: it may be the one that is looked for")
}

// source is whose list decides: the provider that has the object, and its node where each keeps its own.
type source struct {
	plugin   ids.Plugin
	provider string
	home     ids.Node
}

// lister returns a plugin whose list speaks for the whole provider: it is served by that one, it offers a list, and if
// every node keeps its own, the node is known.
func (v Verifier) lister(src source, offers func(*plugin.Record) bool) (*plugin.Record, error) {
	rec, subject := v.Store.Snapshot().Plugin(nil, src.plugin), `plugin "`+string(src.plugin)+`"`
	switch {
	case rec == nil || !rec.Negotiated:
		return nil, fault.New(fault.NotReady, "", subject, "it has not reported what it can do")
	case rec.Foreign(src.provider) != "":
		return nil, fault.New(fault.NotReady, "", subject, rec.Foreign(src.provider))
	case !offers(rec):
		return nil, fault.New(fault.Unsupported, "", subject,
			"it does not list what its provider has; look there whether the object still exists")
	case rec.Scope == plugin.ScopeNode && src.home == "":
		return nil, fault.New(fault.Unsupported, "", subject,
			"each node lists its own, and the object's node is not known")
	}
	return rec, nil
}

// find reads the list to its end; nil means that the volume is not on it.
func (v Verifier) find(
	ctx context.Context, executor ids.Node, src source, external string,
) (*wire.ExternalVolume, error) {
	conn, err := v.Nodes.NodeConn(executor)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	var found *wire.ExternalVolume
	err = pages(func(token string) (string, error) {
		page, err := wire.AgentListVolumes.Call(ctx, conn,
			&wire.PluginReadRequest{
				Node:      executor,
				Plugin:    src.plugin,
				Provider:  src.provider,
				PerPage:   verifyPage,
				NextToken: token,
			})
		if err != nil {
			return "", err
		}
		for i, o := range page.Items {
			switch {
			case o.ExternalID == external:
				found = &page.Items[i]
			case strings.Contains(o.ExternalID, redact.Mask):
				return "", maskedID()
			}
		}
		return page.NextToken, nil
	})
	return found, err
}

// pages asks for page after page until there is no further one. A provider that repeats a token would never end.
func pages(ask func(token string) (next string, err error)) error {
	seen := map[string]bool{}
	for token := ""; ; {
		next, err := ask(token)
		switch {
		case err != nil || next == "":
			return err
		case seen[next]:
			return fault.New(fault.Internal, "", "the provider's list",
				fmt.Sprintf("the token %q came twice, so it has no end", next))
		}
		seen[next], token = true, next
	}
}

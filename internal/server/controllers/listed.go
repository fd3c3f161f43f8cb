package controllers

import (
	"context"

	"berth/internal/base/ids"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// Listed reads a provider's list of volumes to its end, by external id. Home is the node whose list it is, where each
// node keeps its own.
func (v Verifier) Listed(
	ctx context.Context, id ids.Plugin, provider string, home, executor ids.Node,
) (map[string]*volume.Listed, error) {
	rec, err := v.lister(source{plugin: id, provider: provider, home: home},
		func(r *plugin.Record) bool { return r.Controller.ListVolumes })
	if err != nil {
		return nil, err
	}
	conn, err := v.Nodes.NodeConn(executor)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	out := map[string]*volume.Listed{}
	err = pages(func(token string) (string, error) {
		page, err := wire.AgentListVolumes.Call(ctx, conn, &wire.PluginReadRequest{
			Node:      executor,
			Plugin:    id,
			Provider:  provider,
			PerPage:   verifyPage,
			NextToken: token,
		})
		if err != nil {
			return "", err
		}
		for _, item := range page.Items {
			out[item.ExternalID] = &volume.Listed{
				Nodes:      item.PublishedNodes,
				NodesKnown: rec.Controller.ListPublishedNodes,
				Abnormal:   item.Abnormal,
				Message:    item.Status,
			}
		}
		return page.NextToken, nil
	})
	return out, err
}

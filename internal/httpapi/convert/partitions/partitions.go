// Package partitions owns how namespaces and node pools are shown to clients of this API, and read from them. Only
// httpapi imports it.
package partitions

import (
	"encoding/json"
	"fmt"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/httpapi/convert/objects"
	"berth/internal/model/partition"
	"berth/internal/wire"
)

// Namespace is the public form of a namespace.
func Namespace(n *partition.Namespace) *api.Namespace {
	out := &api.Namespace{
		Name:        string(n.Name),
		Description: n.Description,
		Meta:        n.Meta,
		Hash:        objects.Hash(n.Name, n.Description, n.Meta, n.Capabilities, n.Pools),
		CreateIndex: n.CreateIndex,
		ModifyIndex: n.ModifyIndex,
	}
	if c := n.Capabilities; c != nil {
		out.Capabilities = &api.NamespaceCapabilities{
			EnabledTaskDrivers:   c.EnabledDrivers,
			DisabledTaskDrivers:  c.DisabledDrivers,
			EnabledNetworkModes:  c.EnabledNetworkModes,
			DisabledNetworkModes: c.DisabledNetworkModes,
		}
	}
	if p := n.Pools; p != nil {
		out.NodePoolConfiguration = &api.NamespaceNodePoolConfiguration{
			Default: p.Default,
			Allowed: p.Allowed,
			Denied:  p.Denied,
		}
	}
	return out
}

// ToNamespace is the internal form of a namespace that somebody writes. What is not built is refused by its name.
func ToNamespace(body *api.Namespace, path, by string) (*wire.NamespacePutRequest, error) {
	name, err := objects.SameName("the name", body.Name, path)
	if err != nil {
		return nil, err
	}
	vault, consul := body.VaultConfiguration, body.ConsulConfiguration
	for _, u := range []struct {
		field string
		says  bool
	}{
		{"Quota", body.Quota != ""},
		{"VaultConfiguration", vault != nil && says(vault.Default, vault.Allowed, vault.Denied)},
		{"ConsulConfiguration", consul != nil && says(consul.Default, consul.Allowed, consul.Denied)},
		{"RequiredExtraClaims", len(body.RequiredExtraClaims) > 0},
		{"OptionalExtraClaims", len(body.OptionalExtraClaims) > 0},
	} {
		if u.says {
			return nil, notBuilt("namespace", name, u.field)
		}
	}
	out := &wire.NamespacePutRequest{By: by, Namespace: partition.Namespace{
		Name:        ids.Namespace(name),
		Description: body.Description,
		Meta:        body.Meta,
	}}
	if c := body.Capabilities; c != nil {
		out.Namespace.Capabilities = &partition.Capabilities{
			EnabledDrivers:       c.EnabledTaskDrivers,
			DisabledDrivers:      c.DisabledTaskDrivers,
			EnabledNetworkModes:  c.EnabledNetworkModes,
			DisabledNetworkModes: c.DisabledNetworkModes,
		}
	}
	if p := body.NodePoolConfiguration; p != nil {
		out.Namespace.Pools = &partition.PoolRules{Default: p.Default, Allowed: p.Allowed, Denied: p.Denied}
	}
	return out, nil
}

func says(one string, lists ...[]string) bool {
	for _, l := range lists {
		if len(l) > 0 {
			return true
		}
	}
	return one != ""
}

func notBuilt(kind, name, field string) error {
	return fault.New(fault.Unsupported, "write", fmt.Sprintf("%s %q", kind, name),
		field+" is not built: leave it out")
}

// NodePool is the public form of a node pool.
func NodePool(p *partition.NodePool) *api.NodePool {
	return &api.NodePool{
		Name:        p.Name,
		Description: p.Description,
		Meta:        p.Meta,
		Hash:        objects.Hash(p.Name, p.Description, p.Meta),
		CreateIndex: p.CreateIndex,
		ModifyIndex: p.ModifyIndex,
	}
}

// NodePoolBody is a node pool that somebody writes. Clients say the time to live of identities as a text or a number.
type NodePoolBody struct {
	api.NodePool
	NodeIdentityTTL json.RawMessage
}

// ToNodePool is the internal form of a node pool that somebody writes. What is not built is refused by its name.
func ToNodePool(body *NodePoolBody, path, by string) (*wire.NodePoolPutRequest, error) {
	name, err := objects.SameName("the name", body.Name, path)
	if err != nil {
		return nil, err
	}
	if c := body.SchedulerConfiguration; c != nil && (c.SchedulerAlgorithm != "" ||
		c.MemoryOversubscriptionEnabled != nil) {
		return nil, notBuilt(partition.NodePoolKind, name, "SchedulerConfiguration")
	}
	switch ttl := strings.TrimSpace(string(body.NodeIdentityTTL)); ttl {
	case "", "null", `""`, "0", `"0s"`:
	default:
		return nil, notBuilt(partition.NodePoolKind, name, "NodeIdentityTTL")
	}
	return &wire.NodePoolPutRequest{By: by, Pool: partition.NodePool{
		Name:        name,
		Description: body.Description,
		Meta:        body.Meta,
	}}, nil
}

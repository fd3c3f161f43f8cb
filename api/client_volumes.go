package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Volumes are the endpoints of CSI volumes and their snapshots.
type Volumes struct{ c *Client }

// Volumes returns the endpoints of CSI volumes and their snapshots.
func (c *Client) Volumes() Volumes { return Volumes{c} }

// List returns the CSI volumes, newest first. QueryOptions.Params may name plugin_id and node_id.
func (v Volumes) List(ctx context.Context, o *QueryOptions) ([]*CSIVolumeListStub, *QueryMeta, error) {
	var out []*CSIVolumeListStub
	meta, err := v.c.do(ctx, newCall(http.MethodGet, "volumes").set("type", "csi").read(o), &out)
	slices.SortStableFunc(out, func(a, b *CSIVolumeListStub) int { return cmp.Compare(b.CreateIndex, a.CreateIndex) })
	return out, meta, err
}

// Get returns a volume in full.
func (v Volumes) Get(ctx context.Context, id string, o *QueryOptions) (*CSIVolume, *QueryMeta, error) {
	return get[CSIVolume](ctx, v.c, o, "volume", "csi", id)
}

// Usage returns how full a volume is and in which condition, as the nodes that use it measured it last; an addition of
// Berth.
func (v Volumes) Usage(ctx context.Context, id string, o *QueryOptions) (*CSIVolumeUsage, *QueryMeta, error) {
	return get[CSIVolumeUsage](ctx, v.c, o, "volume", "csi", id, "usage")
}

// Create has the provider make a volume, or changes one that exists.
func (v Volumes) Create(
	ctx context.Context, vol *CSIVolume, o *WriteOptions,
) (*CSIVolumeCreateResponse, *QueryMeta, error) {
	var out CSIVolumeCreateResponse
	meta, err := v.c.do(ctx,
		newCall(http.MethodPut, "volume", "csi", vol.ID,
			"create").write(o).json(&CSIVolumeCreateRequest{Volumes: []*CSIVolume{vol}}), &out)
	return &out, meta, err
}

// Register makes a volume of the provider known.
func (v Volumes) Register(
	ctx context.Context, vol *CSIVolume, o *WriteOptions,
) (*CSIVolumeRegisterResponse, *QueryMeta, error) {
	var out CSIVolumeRegisterResponse
	meta, err := v.c.do(ctx,
		newCall(http.MethodPut, "volume", "csi",
			vol.ID).write(o).json(&CSIVolumeRegisterRequest{Volumes: []*CSIVolume{vol}}), &out)
	return &out, meta, err
}

// Expand makes a volume larger.
func (v Volumes) Expand(
	ctx context.Context, id string, req *CSIVolumeExpandRequest, o *WriteOptions,
) (*CSIVolumeCreateResponse, *QueryMeta, error) {
	return put[CSIVolumeCreateResponse](ctx, v.c, o, req, "volume", "csi", id, "expand")
}

// Delete has the provider delete a volume and forgets it. It waits at most wait until nobody uses the volume; 0 leaves
// the time to the server.
func (v Volumes) Delete(ctx context.Context, id string, secrets Secrets, wait time.Duration, o *WriteOptions) error {
	out, err := v.BeginDelete(ctx, id, secrets, wait, o)
	if err == nil && out.Outcome == CSIVolumeAccepted {
		return fmt.Errorf("volume %q is not deleted after %s; it goes on: %s", id, wait, out.Waits)
	}
	return err
}

// BeginDelete is Delete that succeeds when the deletion is accepted: it goes on by itself when it has not ended after
// the wait, and its outcome is CSIVolumeAccepted then.
func (v Volumes) BeginDelete(
	ctx context.Context, id string, secrets Secrets, wait time.Duration, o *WriteOptions,
) (*CSIVolumeWriteResult, error) {
	r := newCall(http.MethodDelete, "volume", "csi", id, "delete").write(o)
	if wait > 0 {
		r.set("wait", wait.String())
	}
	resp, err := v.c.send(ctx, r.secrets(secrets))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var out CSIVolumeWriteResult
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if body = bytes.TrimSpace(body); err == nil && bytes.HasPrefix(body, []byte("{")) { // else it has ended
		return &out, json.Unmarshal(body, &out)
	}
	return &out, v.c.unreachable(err)
}

// Deregister forgets a volume and leaves it with its provider. A forced one, with the reason that is kept, does so even
// when allocations hold it.
func (v Volumes) Deregister(ctx context.Context, id string, force bool, reason string, o *WriteOptions) error {
	_, err := v.c.do(ctx,
		newCall(http.MethodDelete, "volume", "csi", id).write(o).setBool("force", force).set("reason", reason), nil)
	return err
}

// Detach has a volume leave a node.
func (v Volumes) Detach(ctx context.Context, id, node string, o *WriteOptions) error {
	_, err := v.c.do(ctx, newCall(http.MethodDelete, "volume", "csi", id, "detach").write(o).set("node", node), nil)
	return err
}

// Release says that nothing is left of a volume on a node that has unmounted it and whose plugin does not unstage it;
// it is refused while the node still shows it mounted.
func (v Volumes) Release(ctx context.Context, id, node, reason string, o *WriteOptions) error {
	_, err := v.c.do(ctx, newCall(http.MethodPut, "volume", "csi", id, "release").write(o).set("node", node).
		set("reason", reason), nil)
	return err
}

// ListExternal returns a page of the volumes that a plugin's provider has.
func (v Volumes) ListExternal(
	ctx context.Context, plugin string, o *QueryOptions,
) (*CSIVolumeListExternalResponse, *QueryMeta, error) {
	var out CSIVolumeListExternalResponse
	meta, err := v.c.do(ctx, newCall(http.MethodGet, "volumes", "external").set("plugin_id", plugin).read(o), &out)
	return &out, meta, err
}

// CreateSnapshot makes a snapshot of SourceVolumeID.
func (v Volumes) CreateSnapshot(
	ctx context.Context, snap *CSISnapshot, o *WriteOptions,
) (*CSISnapshotCreateResponse, *QueryMeta, error) {
	var out CSISnapshotCreateResponse
	r := newCall(http.MethodPut, "volumes",
		"snapshot").write(o).secrets(snap.Secrets).json(&CSISnapshotCreateRequest{Snapshots: []*CSISnapshot{snap}})
	meta, err := v.c.do(ctx, r, &out)
	return &out, meta, err
}

// ListSnapshots returns a page of a plugin's snapshots, newest first.
func (v Volumes) ListSnapshots(
	ctx context.Context, plugin string, secrets Secrets, o *QueryOptions,
) (*CSISnapshotListResponse, *QueryMeta, error) {
	var out CSISnapshotListResponse
	meta, err := v.c.do(ctx,
		newCall(http.MethodGet, "volumes", "snapshot").set("plugin_id", plugin).read(o).secrets(secrets), &out)
	slices.SortStableFunc(out.Snapshots, func(a, b *CSISnapshot) int { return cmp.Compare(b.CreateTime, a.CreateTime) })
	return &out, meta, err
}

// DeleteSnapshot deletes a plugin's snapshot.
func (v Volumes) DeleteSnapshot(ctx context.Context, plugin, snapshot string, secrets Secrets, o *WriteOptions) error {
	r := newCall(http.MethodDelete, "volumes", "snapshot").set("plugin_id", plugin).set("snapshot_id",
		snapshot).write(o).secrets(secrets)
	_, err := v.c.do(ctx, r, nil)
	return err
}

// secrets puts secrets into the header that is kept out of URLs and access logs. It has no quoting.
func (r *call) secrets(s Secrets) *call {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if strings.ContainsAny(name, "=,\r\n") || strings.ContainsAny(s[name], ",\r\n") {
			r.err = fmt.Errorf(
				"the secret %q cannot be sent: names must have no '=', and neither names nor values commas or line "+
					"ends", name)
			return r
		}
		pairs = append(pairs, name+"="+s[name])
	}
	if len(pairs) > 0 {
		r.header.Set("X-Nomad-CSI-Secrets", strings.Join(pairs, ","))
	}
	return r
}

// Plugins are the endpoints of CSI plugins.
type Plugins struct{ c *Client }

// Plugins returns the endpoints of CSI plugins.
func (c *Client) Plugins() Plugins { return Plugins{c} }

// List returns the CSI plugins, newest first.
func (p Plugins) List(ctx context.Context, o *QueryOptions) ([]*CSIPluginListStub, *QueryMeta, error) {
	var out []*CSIPluginListStub
	meta, err := p.c.do(ctx, newCall(http.MethodGet, "plugins").set("type", "csi").read(o), &out)
	slices.SortStableFunc(out, func(a, b *CSIPluginListStub) int { return cmp.Compare(b.CreateIndex, a.CreateIndex) })
	return out, meta, err
}

// Get returns a plugin in full.
func (p Plugins) Get(ctx context.Context, id string, o *QueryOptions) (*CSIPlugin, *QueryMeta, error) {
	return get[CSIPlugin](ctx, p.c, o, "plugin", "csi", id)
}

// Rebind gives what another provider of the plugin had to the provider that serves it now.
func (p Plugins) Rebind(
	ctx context.Context, id string, req *CSIPluginRebindRequest, o *WriteOptions,
) (*CSIPluginRebindResponse, *QueryMeta, error) {
	return put[CSIPluginRebindResponse](ctx, p.c, o, req, "plugin", "csi", id, "rebind")
}

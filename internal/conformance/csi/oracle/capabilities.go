package oracle

import (
	"slices"
	"strings"

	"berth/internal/conformance/csi/proxy"
	"berth/internal/port/csi"
)

// capabilities judges invariant I12: no call and no field without its capability, advertised by this run of the plugin.
type capabilities struct{}

var needed = map[csi.RPC]struct {
	by   csi.RPC
	name string
}{
	csi.CreateVolume:               {csi.ControllerGetCapabilities, "CREATE_DELETE_VOLUME"},
	csi.DeleteVolume:               {csi.ControllerGetCapabilities, "CREATE_DELETE_VOLUME"},
	csi.ControllerPublishVolume:    {csi.ControllerGetCapabilities, "PUBLISH_UNPUBLISH_VOLUME"},
	csi.ControllerUnpublishVolume:  {csi.ControllerGetCapabilities, "PUBLISH_UNPUBLISH_VOLUME"},
	csi.ValidateVolumeCapabilities: {csi.GetPluginCapabilities, "CONTROLLER_SERVICE"},
	csi.ControllerGetCapabilities:  {csi.GetPluginCapabilities, "CONTROLLER_SERVICE"},
	csi.ListVolumes:                {csi.ControllerGetCapabilities, "LIST_VOLUMES"},
	csi.GetCapacity:                {csi.ControllerGetCapabilities, "GET_CAPACITY"},
	csi.CreateSnapshot:             {csi.ControllerGetCapabilities, "CREATE_DELETE_SNAPSHOT"},
	csi.DeleteSnapshot:             {csi.ControllerGetCapabilities, "CREATE_DELETE_SNAPSHOT"},
	csi.ListSnapshots:              {csi.ControllerGetCapabilities, "LIST_SNAPSHOTS"},
	csi.GetSnapshot:                {csi.ControllerGetCapabilities, "GET_SNAPSHOT"},
	csi.ControllerExpandVolume:     {csi.ControllerGetCapabilities, "EXPAND_VOLUME"},
	csi.ControllerGetVolume:        {csi.ControllerGetCapabilities, "GET_VOLUME"},
	csi.ControllerModifyVolume:     {csi.ControllerGetCapabilities, "MODIFY_VOLUME"},

	csi.GroupControllerGetCapabilities: {csi.GetPluginCapabilities, "GROUP_CONTROLLER_SERVICE"},
	csi.CreateVolumeGroupSnapshot:      {csi.GroupControllerGetCapabilities, "CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT"},
	csi.DeleteVolumeGroupSnapshot:      {csi.GroupControllerGetCapabilities, "CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT"},
	csi.GetVolumeGroupSnapshot:         {csi.GroupControllerGetCapabilities, "CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT"},

	csi.NodeStageVolume:    {csi.NodeGetCapabilities, "STAGE_UNSTAGE_VOLUME"},
	csi.NodeUnstageVolume:  {csi.NodeGetCapabilities, "STAGE_UNSTAGE_VOLUME"},
	csi.NodeGetVolumeStats: {csi.NodeGetCapabilities, "GET_VOLUME_STATS"},
	csi.NodeExpandVolume:   {csi.NodeGetCapabilities, "EXPAND_VOLUME"},
}

// fields by name, and for which service's calls the rule holds; an empty service: for all.
var fieldNeeds = []struct {
	field   string
	service csi.Service
	by      csi.RPC
	name    string
}{
	{"accessibility_requirements", "", csi.GetPluginCapabilities, "VOLUME_ACCESSIBILITY_CONSTRAINTS"},
	{"accessible_topology", "", csi.GetPluginCapabilities, "VOLUME_ACCESSIBILITY_CONSTRAINTS"},
	{"mutable_parameters", "", csi.ControllerGetCapabilities, "MODIFY_VOLUME"},
	{"volume_content_source.volume", "", csi.ControllerGetCapabilities, "CLONE_VOLUME"},
	{"volume_content_source.snapshot", "", csi.ControllerGetCapabilities, "CREATE_DELETE_SNAPSHOT"},
	{"readonly", csi.ControllerService, csi.ControllerGetCapabilities, "PUBLISH_READONLY"},
	{"volume_mount_group", csi.NodeService, csi.NodeGetCapabilities, "VOLUME_MOUNT_GROUP"},
	{"staging_target_path", csi.NodeService, csi.NodeGetCapabilities, "STAGE_UNSTAGE_VOLUME"},
}

func (capabilities) begin(w *world, c *call) {
	if n, ok := needed[c.rpc]; ok && !w.has(c, n.by, n.name) {
		w.violate("I12", c.Entry, "%s was sent, but this run of the plugin has not advertised %s", c.RPC, n.name)
	}
	for _, f := range fieldNeeds {
		if slices.Contains(c.Fields, f.field) && (f.service == "" || f.service == c.rpc.Service()) &&
			!w.has(c, f.by, f.name) {
			w.violate("I12", c.Entry, "the field %s was sent, but this run of the plugin has not advertised %s",
				f.field, f.name)
		}
	}
	if strings.HasPrefix(c.Mode, "SINGLE_NODE_SINGLE") || strings.HasPrefix(c.Mode, "SINGLE_NODE_MULTI") {
		by := csi.ControllerGetCapabilities
		if c.node() {
			by = csi.NodeGetCapabilities
		}
		if !w.has(c, by, "SINGLE_NODE_MULTI_WRITER") {
			w.violate("I12", c.Entry,
				"the access mode %s was sent, but this run of the plugin has not advertised SINGLE_NODE_MULTI_WRITER",
				c.Mode)
		}
	}
	stagingField(w, c)
	if attaches, known := w.attaches[c.Plugin]; known && !attaches && slices.Contains(c.Fields, "publish_context") {
		w.violate("I12", c.Entry, "a publish context was sent, but the plugin does not attach")
	}
}

// stagingField demands the staging path where the plugin stages.
func stagingField(w *world, c *call) {
	switch c.rpc {
	case csi.NodePublishVolume, csi.NodeGetVolumeStats, csi.NodeExpandVolume:
		if c.Staging == "" && w.has(c, csi.NodeGetCapabilities, "STAGE_UNSTAGE_VOLUME") {
			w.violate("I12", c.Entry, "%s names no staging path although the plugin stages", c.RPC)
		}
	}
}

func (capabilities) end(*world, *call)        {}
func (capabilities) mark(*world, proxy.Entry) {}

package jobspec

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"berth/api"
)

// Volume is what a volume file describes: exactly one of CSI and Host is set.
type Volume struct {
	CSI  *api.CSIVolume
	Host *api.HostVolume
}

// volumeHead reads the type, which selects the rest.
type volumeHead struct {
	Type string `hcl:"type"`
}

// csiVolumeFile is a volume file of type csi.
type csiVolumeFile struct {
	Type string `hcl:"type"`
	api.CSIVolume
	Topology *topologyRequest `hcl:"topology_request,block"`
}

// topologyRequest is written with one more level than api.CSITopologyRequest has.
type topologyRequest struct {
	Required  []topologyList `hcl:"required,block"`
	Preferred []topologyList `hcl:"preferred,block"`
}

// topologyList is what required and preferred hold.
type topologyList struct {
	Topologies []*api.CSITopology `hcl:"topology,block"`
}

func (f *csiVolumeFile) moveTopology() {
	if f.Topology == nil {
		return
	}
	request := &api.CSITopologyRequest{}
	for _, list := range f.Topology.Required {
		request.Required = append(request.Required, list.Topologies...)
	}
	for _, list := range f.Topology.Preferred {
		request.Preferred = append(request.Preferred, list.Topologies...)
	}
	f.RequestedTopologies = request
}

// hostVolumeFile is a volume file of type host.
type hostVolumeFile struct {
	Type string `hcl:"type"`
	api.HostVolume
}

var volumeSpecials = func() map[reflect.Type]special {
	out := maps.Clone(jobSpecials)
	moved := "write it in a capability block: capability { access_mode = \"…\"  attachment_mode = \"…\" }"
	out[reflect.TypeFor[csiVolumeFile]()] = special{refusal: map[string]string{
		"access_mode":     moved,
		"attachment_mode": moved,
		"capacity":        "write capacity_min and capacity_max",
		"host_path":       "it belongs to volumes of type host",
		"node_id":         "it belongs to volumes of type host; use topology_request",
		"node_pool":       "it belongs to volumes of type host; use topology_request",
	}}
	out[reflect.TypeFor[hostVolumeFile]()] = special{refusal: map[string]string{
		"access_mode":      moved,
		"attachment_mode":  moved,
		"mount_options":    "it belongs to volumes of type csi",
		"secrets":          "it belongs to volumes of type csi",
		"external_id":      "it belongs to volumes of type csi",
		"topology_request": "it belongs to volumes of type csi; use node_id, node_pool or constraint",
	}}
	return out
}()

// ParseVolume reads a volume file, HCL2 or JSON. The server checks everything again; here is found what has a line.
func ParseVolume(path string, src []byte) (*Volume, error) {
	typ, err := volumeType(path, src)
	if err != nil {
		return nil, err
	}
	r := newReport()
	vol := &Volume{}
	switch typ {
	case "csi":
		var f csiVolumeFile
		d := decodeLiteral(r, path, src, &f, volumeSpecials)
		f.moveTopology()
		if d != nil && !r.failed() {
			checkCSIVolume(d, &f.CSIVolume)
		}
		vol.CSI = &f.CSIVolume
	case "host":
		var f hostVolumeFile
		if d := decodeLiteral(r, path, src, &f, volumeSpecials); d != nil && !r.failed() {
			checkHostVolume(d, &f.HostVolume)
		}
		vol.Host = &f.HostVolume
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return vol, nil
}

// volumeType finds the type attribute at the top of a volume file.
func volumeType(path string, src []byte) (string, error) {
	r := newReport()
	var head volumeHead
	d := &decoder{report: r}
	if isJSON(src) {
		d.doc = openJSON(r, path, src, MaxSource, reflect.TypeOf(head))
	} else {
		d.doc = openDocument(r, path, src, MaxSource, mapNames(reflect.TypeFor[csiVolumeFile]()))
	}
	if d.doc == nil {
		return "", r.err()
	}
	sc := plainScope()
	for _, a := range sortedAttrs(d.doc.body) {
		if d.doc.attrName(a) != "type" {
			continue
		}
		val, ok := sc.value(r, d.doc, a.Expr)
		if !ok {
			return "", r.err()
		}
		typ := ""
		if err := setValue(reflect.ValueOf(&typ).Elem(), val, kindAttr); err != nil {
			r.add(a.Expr.Range(), "type %s", err)
			return "", r.err()
		}
		if typ != "csi" && typ != "host" {
			r.add(a.Expr.Range(), "the volume type %q is not known; there are csi and host", typ)
			return "", r.err()
		}
		return typ, nil
	}
	if len(d.doc.body.Blocks) > 0 && d.doc.body.Blocks[0].Type == "volume" {
		r.add(d.doc.body.Blocks[0].DefRange(), "a volume file has the volume's attributes at its top, without a volume block around them")
		return "", r.err()
	}
	r.addFile(path, "the file has no type; write type = \"csi\" or type = \"host\"")
	return "", r.err()
}

// The modes of volumes, by type.
var (
	csiAccessModes  = []string{"single-node-reader-only", "single-node-writer", "multi-node-reader-only", "multi-node-single-writer", "multi-node-multi-writer"}
	hostAccessModes = []string{"single-node-reader-only", "single-node-writer", "single-node-single-writer", "single-node-multi-writer"}
	attachmentModes = []string{"file-system", "block-device"}
)

func checkCSIVolume(d *decoder, v *api.CSIVolume) {
	d.required(v.ID, "id")
	d.required(v.PluginID, "plugin_id")
	if v.Name == "" {
		v.Name = v.ID
	}
	if len(v.RequestedCapabilities) == 0 {
		d.report.addFile(d.doc.path, "the volume needs a block capability { access_mode = \"single-node-writer\"  attachment_mode = \"file-system\" }")
	}
	for _, c := range v.RequestedCapabilities {
		d.mode(c, "AccessMode", "access_mode", c.AccessMode, csiAccessModes)
		d.mode(c, "AttachmentMode", "attachment_mode", c.AttachmentMode, attachmentModes)
	}
	if v.SnapshotID != "" && v.CloneID != "" {
		d.report.add(d.at[v]["CloneID"], "a volume is made from a snapshot or from another volume, not both; remove snapshot_id or clone_id")
	}
	d.capacity(v, "RequestedCapacityMax", v.RequestedCapacityMin, v.RequestedCapacityMax)
	if t := v.RequestedTopologies; t != nil {
		for _, place := range slices.Concat(t.Required, t.Preferred) {
			if len(place.Segments) == 0 {
				d.report.add(d.at[place][""], "the topology has no segments; write segments { \"key\" = \"value\" }")
			}
		}
	}
}

func checkHostVolume(d *decoder, v *api.HostVolume) {
	d.required(v.Name, "name")
	for _, c := range v.RequestedCapabilities {
		d.mode(c, "AccessMode", "access_mode", c.AccessMode, hostAccessModes)
		d.mode(c, "AttachmentMode", "attachment_mode", c.AttachmentMode, attachmentModes)
	}
	d.capacity(v, "RequestedCapacityMaxBytes", v.RequestedCapacityMinBytes, v.RequestedCapacityMaxBytes)
	for _, c := range v.Constraints {
		if strings.HasPrefix(c.Operand, "distinct_") {
			d.report.add(d.at[c][""], "a volume is placed on one node, so %s means nothing; remove the constraint", c.Operand)
		}
	}
}

func (d *decoder) required(value, name string) {
	if value == "" {
		d.report.addFile(d.doc.path, "the volume has no %s; write %s = \"…\"", name, name)
	}
}

func (d *decoder) mode(owner any, member, name, value string, allowed []string) {
	if slices.Contains(allowed, value) {
		return
	}
	rng, ok := d.at[owner][member]
	if !ok {
		rng = d.at[owner][""]
	}
	list := strings.Join(allowed, ", ")
	if value == "" {
		d.report.add(rng, "the capability has no %s; there are %s", name, list)
		return
	}
	d.report.add(rng, "the %s %q is not known; there are %s%s", name, value, list, didYouMean(value, allowed))
}

func (d *decoder) capacity(owner any, member string, least, most int64) {
	if most != 0 && most < least {
		d.report.add(d.at[owner][member], "capacity_max (%d bytes) is less than capacity_min (%d bytes)", most, least)
	}
}

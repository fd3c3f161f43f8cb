package jobspec

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"berth/api"
	"berth/jobspec/hclfile"
	"berth/jobspec/near"
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

var volumeSpecials = func() map[reflect.Type]hclfile.Special {
	out := maps.Clone(jobSpecials)
	moved := "write it in a capability block: capability { access_mode = \"…\"  attachment_mode = \"…\" }"
	out[reflect.TypeFor[csiVolumeFile]()] = hclfile.Special{Refusal: map[string]string{
		"access_mode":     moved,
		"attachment_mode": moved,
		"capacity":        "write capacity_min and capacity_max",
		"host_path":       "it belongs to volumes of type host",
		"node_id":         "it belongs to volumes of type host; use topology_request",
		"node_pool":       "it belongs to volumes of type host; use topology_request",
	}}
	out[reflect.TypeFor[hostVolumeFile]()] = hclfile.Special{Refusal: map[string]string{
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
	r := hclfile.NewReport()
	vol := &Volume{}
	switch typ {
	case "csi":
		var f csiVolumeFile
		d := hclfile.DecodeInto(r, path, src, &f, volumeSpecials)
		f.moveTopology()
		if d != nil && !r.Failed() {
			checkCSIVolume(d, &f.CSIVolume)
		}
		vol.CSI = &f.CSIVolume
	case "host":
		var f hostVolumeFile
		if d := hclfile.DecodeInto(r, path, src, &f, volumeSpecials); d != nil && !r.Failed() {
			checkHostVolume(d, &f.HostVolume)
		}
		vol.Host = &f.HostVolume
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	return vol, nil
}

// volumeType finds the type attribute at the top of a volume file.
func volumeType(path string, src []byte) (string, error) {
	r := hclfile.NewReport()
	var head volumeHead
	var doc *hclfile.Source
	if hclfile.IsJSON(src) {
		doc = hclfile.OpenJSON(r, path, src, hclfile.MaxSource, reflect.TypeOf(head))
	} else {
		doc = hclfile.Open(r, path, src, hclfile.MaxSource, hclfile.MapNames(reflect.TypeFor[csiVolumeFile]()))
	}
	if doc == nil {
		return "", r.Err()
	}
	sc := hclfile.PlainScope()
	for _, a := range hclfile.SortedAttrs(doc.Body) {
		if doc.AttrName(a) != "type" {
			continue
		}
		val, ok := sc.Value(r, doc, a.Expr)
		if !ok {
			return "", r.Err()
		}
		typ := ""
		if err := hclfile.SetValue(reflect.ValueOf(&typ).Elem(), val, hclfile.KindAttr); err != nil {
			r.Add(a.Expr.Range(), "type %s", err)
			return "", r.Err()
		}
		if typ != "csi" && typ != "host" {
			r.Add(a.Expr.Range(), "the volume type %q is not known; there are csi and host", typ)
			return "", r.Err()
		}
		return typ, nil
	}
	if len(doc.Body.Blocks) > 0 && doc.Body.Blocks[0].Type == "volume" {
		r.Add(doc.Body.Blocks[0].DefRange(),
			"a volume file has the volume's attributes at its top, without a volume block around them")
		return "", r.Err()
	}
	if len(doc.Body.Blocks) > 0 && doc.Body.Blocks[0].Type == "job" {
		r.Add(doc.Body.Blocks[0].DefRange(), "this is a job file; \"berth job run\" takes it")
		return "", r.Err()
	}
	r.AddFile(path, "the file has no type; write type = \"csi\" or type = \"host\"")
	return "", r.Err()
}

// The modes of volumes, by type.
var (
	csiAccessModes = []string{"single-node-reader-only", "single-node-writer", "multi-node-reader-only",
		"multi-node-single-writer", "multi-node-multi-writer"}
	hostAccessModes = []string{"single-node-reader-only", "single-node-writer", "single-node-single-writer",
		"single-node-multi-writer"}
	attachmentModes = []string{"file-system", "block-device"}
)

func checkCSIVolume(d *hclfile.Decoder, v *api.CSIVolume) {
	required(d, v.ID, "id")
	required(d, v.PluginID, "plugin_id")
	if v.Name == "" {
		v.Name = v.ID
	}
	if len(v.RequestedCapabilities) == 0 {
		d.Report.AddFile(d.Source.Path,
			"the volume needs a block capability { access_mode = \"single-node-writer\"  attachment_mode = "+
				"\"file-system\" }")
	}
	for _, c := range v.RequestedCapabilities {
		mode(d, c, "AccessMode", "access_mode", c.AccessMode, csiAccessModes)
		mode(d, c, "AttachmentMode", "attachment_mode", c.AttachmentMode, attachmentModes)
	}
	if v.SnapshotID != "" && v.CloneID != "" {
		d.Report.Add(d.At[v]["CloneID"],
			"a volume is made from a snapshot or from another volume, not both; remove snapshot_id or clone_id")
	}
	capacity(d, v, "RequestedCapacityMax", v.RequestedCapacityMin, v.RequestedCapacityMax)
	if t := v.RequestedTopologies; t != nil {
		for _, place := range slices.Concat(t.Required, t.Preferred) {
			if len(place.Segments) == 0 {
				d.Report.Add(d.At[place][""], "the topology has no segments; write segments { \"key\" = \"value\" }")
			}
		}
	}
}

func checkHostVolume(d *hclfile.Decoder, v *api.HostVolume) {
	required(d, v.Name, "name")
	for _, c := range v.RequestedCapabilities {
		mode(d, c, "AccessMode", "access_mode", c.AccessMode, hostAccessModes)
		mode(d, c, "AttachmentMode", "attachment_mode", c.AttachmentMode, attachmentModes)
	}
	capacity(d, v, "RequestedCapacityMaxBytes", v.RequestedCapacityMinBytes, v.RequestedCapacityMaxBytes)
	for _, c := range v.Constraints {
		if strings.HasPrefix(c.Operand, "distinct_") {
			d.Report.Add(d.At[c][""], "a volume is placed on one node, so %s means nothing; remove the constraint",
				c.Operand)
		}
	}
}

func required(d *hclfile.Decoder, value, name string) {
	if value == "" {
		d.Report.AddFile(d.Source.Path, "the volume has no %s; write %s = \"…\"", name, name)
	}
}

func mode(d *hclfile.Decoder, owner any, member, name, value string, allowed []string) {
	if slices.Contains(allowed, value) {
		return
	}
	rng, ok := d.At[owner][member]
	if !ok {
		rng = d.At[owner][""]
	}
	list := strings.Join(allowed, ", ")
	if value == "" {
		d.Report.Add(rng, "the capability has no %s; there are %s", name, list)
		return
	}
	d.Report.Add(rng, "the %s %q is not known; there are %s%s", name, value, list, near.DidYouMean(value, allowed))
}

func capacity(d *hclfile.Decoder, owner any, member string, least, most int64) {
	if most != 0 && most < least {
		d.Report.Add(d.At[owner][member], "capacity_max (%d bytes) is less than capacity_min (%d bytes)", most, least)
	}
}

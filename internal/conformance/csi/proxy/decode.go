package proxy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// method finds the message types of "/csi.v1.Node/NodeStageVolume"; nil for calls of other protocols.
func method(full string) protoreflect.MethodDescriptor {
	service, name, ok := strings.Cut(strings.TrimPrefix(full, "/"), "/")
	if !ok {
		return nil
	}
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		return nil
	}
	s, ok := d.(protoreflect.ServiceDescriptor)
	if !ok {
		return nil
	}
	return s.Methods().ByName(protoreflect.Name(name))
}

// decode reads a message of the given type; nil when the bytes are not one.
func decode(d protoreflect.MessageDescriptor, b []byte) proto.Message {
	t, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		return nil
	}
	m := t.New().Interface()
	if proto.Unmarshal(b, m) != nil {
		return nil
	}
	return m
}

// mask replaces the values of secrets in a message; an empty replacement takes the fields out.
func mask(m protoreflect.Message, replacement string) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		secret, _ := proto.GetExtension(f.Options(), pb.E_CsiSecret).(bool)
		switch {
		case secret && replacement == "":
			m.Clear(f)
		case secret && f.IsMap():
			masked := m.NewField(f)
			v.Map().Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
				masked.Map().Set(k, protoreflect.ValueOfString(replacement))
				return true
			})
			m.Set(f, masked)
		case f.Message() != nil && !f.IsMap() && !f.IsList():
			mask(v.Message(), replacement)
		}
		return true
	})
}

// secretBytes is the size of a message's secrets, keys and values, which the record must not show.
func secretBytes(m protoreflect.Message) (n int) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if secret, _ := proto.GetExtension(f.Options(), pb.E_CsiSecret).(bool); secret && f.IsMap() {
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				n += len(k.String()) + len(v.String())
				return true
			})
		}
		return true
	})
	return n
}

// describe fills an entry with what a request says.
func (e *Entry) describe(m proto.Message) {
	if m == nil {
		return
	}
	bare := proto.Clone(m)
	mask(bare.ProtoReflect(), "")
	if b, err := (proto.MarshalOptions{Deterministic: true}).Marshal(bare); err == nil {
		sum := sha256.Sum256(b)
		e.Hash = hex.EncodeToString(sum[:8])
	}
	m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		e.Fields = append(e.Fields, string(f.Name()))
		return true
	})
	slices.Sort(e.Fields)
	e.Secrets = secretBytes(m.ProtoReflect())
	e.Request = jsonOf(m)
	if g, ok := m.(interface{ GetVolumeId() string }); ok {
		e.Volume = g.GetVolumeId()
	}
	if g, ok := m.(interface{ GetNodeId() string }); ok {
		e.Node = g.GetNodeId()
	}
	if g, ok := m.(interface{ GetStagingTargetPath() string }); ok {
		e.Staging = g.GetStagingTargetPath()
	}
	if g, ok := m.(interface{ GetTargetPath() string }); ok {
		e.Target = g.GetTargetPath()
	}
	if g, ok := m.(interface{ GetVolumePath() string }); ok {
		e.Target = g.GetVolumePath()
	}
	if g, ok := m.(interface {
		GetVolumeCapability() *pb.VolumeCapability
	}); ok {
		e.use(g.GetVolumeCapability())
	}
	e.describeObject(m)
}

func (e *Entry) use(c *pb.VolumeCapability) {
	if c == nil {
		return
	}
	e.Mode = c.GetAccessMode().GetMode().String()
	if c.GetMount().GetVolumeMountGroup() != "" {
		e.Fields = append(e.Fields, "volume_mount_group")
	}
}

func (e *Entry) describeObject(m proto.Message) {
	switch r := m.(type) {
	case *pb.CreateVolumeRequest:
		e.Volume = r.GetName()
		for _, c := range r.GetVolumeCapabilities() {
			e.use(c)
		}
		if id := r.GetVolumeContentSource().GetVolume().GetVolumeId(); id != "" {
			e.Source = id
			e.Fields = append(e.Fields, "volume_content_source.volume")
		}
		if id := r.GetVolumeContentSource().GetSnapshot().GetSnapshotId(); id != "" {
			e.Object = id
			e.Fields = append(e.Fields, "volume_content_source.snapshot")
		}
	case *pb.ValidateVolumeCapabilitiesRequest:
		for _, c := range r.GetVolumeCapabilities() {
			e.use(c)
		}
	case *pb.CreateSnapshotRequest:
		e.Volume, e.Object = r.GetSourceVolumeId(), r.GetName()
	case *pb.DeleteSnapshotRequest:
		e.Object = r.GetSnapshotId()
	case *pb.CreateVolumeGroupSnapshotRequest:
		e.Object = r.GetName()
	case *pb.DeleteVolumeGroupSnapshotRequest:
		e.Object = r.GetGroupSnapshotId()
	case *pb.GetVolumeGroupSnapshotRequest:
		e.Object = r.GetGroupSnapshotId()
	}
}

// maxShown bounds what of a message is written down, in bytes; no conforming message comes near it.
const maxShown = 256 << 10

// jsonOf is a message as JSON with masked secrets; one that cannot be decoded says so.
func jsonOf(m proto.Message) json.RawMessage {
	if m == nil {
		return json.RawMessage(`"not decodable"`)
	}
	if proto.Size(m) > maxShown {
		return json.RawMessage(`"too large to be recorded"`)
	}
	c := proto.Clone(m)
	mask(c.ProtoReflect(), "***")
	b, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(c)
	if err != nil {
		return json.RawMessage(`"not encodable as JSON"`)
	}
	return b
}

// flip takes a capability out of an answer about capabilities, or puts it in; other messages stay as they are.
func flip(m proto.Message, name string) bool {
	switch r := m.(type) {
	case *pb.ControllerGetCapabilitiesResponse:
		n := pb.ControllerServiceCapability_RPC_Type(pb.ControllerServiceCapability_RPC_Type_value[name])
		return toggle(&r.Capabilities, n != 0, func(c *pb.ControllerServiceCapability) bool {
			return c.GetRpc().GetType() == n
		},
			&pb.ControllerServiceCapability{
				Type: &pb.ControllerServiceCapability_Rpc{Rpc: &pb.ControllerServiceCapability_RPC{Type: n}},
			})
	case *pb.NodeGetCapabilitiesResponse:
		n := pb.NodeServiceCapability_RPC_Type(pb.NodeServiceCapability_RPC_Type_value[name])
		return toggle(&r.Capabilities, n != 0, func(c *pb.NodeServiceCapability) bool {
			return c.GetRpc().GetType() == n
		},
			&pb.NodeServiceCapability{Type: &pb.NodeServiceCapability_Rpc{Rpc: &pb.NodeServiceCapability_RPC{Type: n}}})
	case *pb.GetPluginCapabilitiesResponse:
		n := pb.PluginCapability_Service_Type(pb.PluginCapability_Service_Type_value[name])
		return toggle(&r.Capabilities, n != 0, func(c *pb.PluginCapability) bool {
			return c.GetService().GetType() == n
		},
			&pb.PluginCapability{Type: &pb.PluginCapability_Service_{Service: &pb.PluginCapability_Service{Type: n}}})
	}
	return false
}

func toggle[T any](list *[]T, known bool, is func(T) bool, added T) bool {
	if !known {
		return false
	}
	if i := slices.IndexFunc(*list, is); i >= 0 {
		*list = slices.Delete(*list, i, i+1)
	} else {
		*list = append(*list, added)
	}
	return true
}

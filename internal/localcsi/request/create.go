package request

import (
	"maps"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"berth/internal/base/sizes"
	"berth/internal/localcsi/image"
	"berth/internal/localcsi/store"
)

const (
	defaultSize = 1 << 30
	maxName     = 128

	// Granularity is what sizes are multiples of.
	Granularity = 4096
	// ParamFS is the one parameter of CreateVolume.
	ParamFS = "fs_type"
)

// Wish is a checked request for a new volume.
type Wish struct {
	Name     string
	asked    store.Asked
	FS       string
	fsChosen bool // fs was asked for, not assumed
	Mount    bool
	Block    bool
	From     *store.Source
}

// Create checks a request for a volume.
func Create(req *csi.CreateVolumeRequest) (*Wish, error) {
	if err := Name(req.GetName()); err != nil {
		return nil, err
	}
	if len(req.GetVolumeCapabilities()) == 0 {
		return nil, Refuse(codes.InvalidArgument, "volume_capabilities is missing")
	}
	if len(req.GetMutableParameters()) > 0 {
		return nil, Refuse(codes.InvalidArgument, "mutable_parameters: this plugin has none")
	}
	w := &Wish{Name: req.GetName(), asked: store.Asked{
		Required: req.GetCapacityRange().GetRequiredBytes(), Limit: req.GetCapacityRange().
				GetLimitBytes(), Parameters: req.GetParameters(),
	}}
	if err := Range(w.asked.Required, w.asked.Limit); err != nil {
		return nil, err
	}
	if err := w.parseParameters(req.GetParameters()); err != nil {
		return nil, err
	}
	if err := w.parseCapabilities(req.GetVolumeCapabilities()); err != nil {
		return nil, err
	}
	switch t := req.GetVolumeContentSource().GetType().(type) {
	case nil:
		if req.GetVolumeContentSource() != nil {
			return nil, Refuse(codes.InvalidArgument, "volume_content_source names neither a snapshot nor a volume")
		}
	case *csi.VolumeContentSource_Snapshot:
		w.From = &store.Source{Snapshot: t.Snapshot.GetSnapshotId()}
	case *csi.VolumeContentSource_Volume:
		w.From = &store.Source{Volume: t.Volume.GetVolumeId()}
	}
	return w, nil
}

// Capacity reads what a question for capacity says about the volumes to be.
func Capacity(req *csi.GetCapacityRequest) (*Wish, error) {
	w := &Wish{}
	if err := w.parseParameters(req.GetParameters()); err != nil {
		return nil, err
	}
	return w, w.parseCapabilities(req.GetVolumeCapabilities())
}

// Origin is what a volume is to be filled from.
type Origin struct {
	Size  int64
	FS    string
	Mount bool
	Block bool
}

func (w *Wish) parseParameters(params map[string]string) error {
	for k, v := range params {
		if k != ParamFS {
			return Refuse(codes.InvalidArgument, "parameter %.64q is not known: the only one is %s (%s or %s)", k,
				ParamFS, image.Ext4, image.XFS)
		}
		if err := validFS(v); err != nil {
			return err
		}
		w.FS = v
	}
	return nil
}

// parseCapabilities folds all intended uses into one volume that serves them all.
func (w *Wish) parseCapabilities(caps []*csi.VolumeCapability) error {
	for _, c := range caps {
		a, err := Capability(c)
		if err != nil {
			return err
		}
		w.Block = w.Block || a.Block
		w.Mount = w.Mount || !a.Block
		if a.FS == "" {
			continue
		}
		if w.FS != "" && w.FS != a.FS {
			return Refuse(codes.InvalidArgument, "the request asks for %s and for %s: a volume has one file system",
				w.FS, a.FS)
		}
		w.FS = a.FS
	}
	w.fsChosen = w.FS != ""
	if w.FS == "" {
		w.FS = image.Ext4
	}
	for _, c := range caps {
		if a, err := Capability(c); err != nil {
			return err
		} else if _, err := a.Options(w.FS); err != nil && w.From == nil {
			return err
		}
	}
	return nil
}

// Differs says how a volume that exists is not what is wished; empty means it is.
func (w *Wish) Differs(v *store.Volume) string {
	same := v.Asked.Required == w.asked.Required && v.Asked.Limit == w.asked.Limit
	switch {
	case !same && (v.Size < w.asked.Required || w.asked.Limit > 0 && v.Size > w.asked.Limit):
		return "its size of " + sizes.Human(v.Size) + " is outside the capacity range"
	case w.Mount && !v.Mount || w.Block && !v.Block:
		return "it does not have all of the volume capabilities"
	case w.Mount && w.fsChosen && w.FS != v.FS:
		return "its file system is " + v.FS
	case !maps.Equal(w.asked.Parameters, v.Asked.Parameters):
		return "its parameters differ"
	case (w.From == nil) != (v.Source == nil), w.From != nil && *w.From != *v.Source:
		return "it was filled from another source"
	}
	return ""
}

// Adopt makes the wish agree with its source or refuses it.
func (w *Wish) Adopt(o *Origin) error {
	switch {
	case w.Mount && !o.Mount:
		return Refuse(codes.InvalidArgument, "the source is a block device: ask for block access")
	case w.Block && !o.Block:
		return Refuse(codes.InvalidArgument, "the source is a file system: ask for mount access")
	case w.Mount && w.fsChosen && w.FS != o.FS:
		return Refuse(codes.InvalidArgument, "the source has %s, %s was asked for", o.FS, w.FS)
	}
	w.FS = o.FS
	return nil
}

// Shape decides on the volume's size and makes its record.
func (w *Wish) Shape(o *Origin) (*store.Volume, error) {
	required, limit := w.asked.Required, w.asked.Limit
	if o != nil {
		// A range says from where to where: what holds the source is as good as any other size in it.
		if limit > 0 && limit < o.Size {
			return nil, Refuse(codes.OutOfRange,
				"the source has %s, the capacity range ends below: ask for at least that", sizes.Human(o.Size))
		}
		required = max(required, o.Size)
	}
	size, err := ChooseSize(required, limit, defaultSize)
	if err != nil {
		return nil, err
	}
	if size < w.Least() {
		return nil, Refuse(codes.OutOfRange, "%s is too small: %s", sizes.Human(size), tooSmall(w.FS, w.Mount))
	}
	v := &store.Volume{
		Schema:  store.Schema,
		Key:     store.NewKey(),
		Name:    w.Name,
		Size:    size,
		Mount:   w.Mount,
		Block:   w.Block,
		Asked:   w.asked,
		Source:  w.From,
		Created: time.Now().UTC(),
	}
	if w.Mount {
		v.FS = w.FS
	}
	return v, nil
}

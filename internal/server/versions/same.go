package versions

import (
	"bytes"
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/model/job"
	"berth/internal/wire"
)

// Same reports whether two versions say the same, leaving out what the servers write.
func Same(a, b *job.Job) (bool, error) {
	if a == nil || b == nil {
		return a == b, nil
	}
	x, err := wire.Encode(a.AsWritten())
	if err != nil {
		return false, fault.Wrap(err, fault.Internal, "compare", fmt.Sprintf("job %q", a.ID))
	}
	y, err := wire.Encode(b.AsWritten())
	if err != nil {
		return false, fault.Wrap(err, fault.Internal, "compare", fmt.Sprintf("job %q", b.ID))
	}
	return bytes.Equal(x, y), nil
}

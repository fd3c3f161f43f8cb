package request

import (
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/codes"

	"berth/internal/base/sizes"
	"berth/internal/localcsi/image"
)

// Least is the size of the smallest volume that serves the wish.
func (w *Wish) Least() int64 {
	switch {
	case !w.Mount:
		return image.MinBlock
	case w.FS == image.XFS:
		return image.MinXFS
	}
	return image.MinExt4
}

func tooSmall(fs string, mounted bool) string {
	switch {
	case !mounted:
		return "a block volume has at least " + sizes.Human(image.MinBlock)
	case fs == image.XFS:
		return "mkfs.xfs makes nothing below " + sizes.Human(image.MinXFS) + "; ask for more, or for ext4"
	}
	return "ext4 with a journal needs at least " + sizes.Human(image.MinExt4)
}

// Range checks a capacity range.
func Range(required, limit int64) error {
	switch {
	case required < 0 || limit < 0:
		return Refuse(codes.InvalidArgument,
			"capacity_range: required_bytes %d and limit_bytes %d must not be negative", required, limit)
	case limit > 0 && required > limit:
		return Refuse(codes.OutOfRange, "capacity_range: required_bytes %d is more than limit_bytes %d", required,
			limit)
	}
	return nil
}

// ChooseSize picks the smallest size in the range, or the usual one where the range allows it.
func ChooseSize(required, limit, usual int64) (int64, error) {
	size := required
	if size == 0 {
		size = usual
		if limit > 0 {
			size = min(size, limit/Granularity*Granularity)
		}
	}
	size = (size + Granularity - 1) / Granularity * Granularity
	if size <= 0 || limit > 0 && size > limit {
		return 0, Refuse(codes.OutOfRange, "no multiple of %d bytes lies in the capacity range %d to %d", Granularity,
			required, limit)
	}
	return size, nil
}

// Name refuses what the specification bans: other control characters than common white space.
func Name(name string) error {
	switch {
	case name == "":
		return Refuse(codes.InvalidArgument, "name is missing")
	case len(name) > maxName:
		return Refuse(codes.InvalidArgument, "name has %d bytes, the limit is %d", len(name), maxName)
	case !utf8.ValidString(name):
		return Refuse(codes.InvalidArgument, "name is not valid UTF-8")
	}
	banned := func(r rune) bool {
		return r <= 0x08 || r == 0x0b || r == 0x0c || r >= 0x0e && r <= 0x1f || r >= 0x7f && r <= 0x9f
	}
	if i := strings.IndexFunc(name, banned); i >= 0 {
		return Refuse(codes.InvalidArgument, "name has a control character at byte %d", i)
	}
	return nil
}

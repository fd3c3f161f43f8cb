// Package storage owns the tests in which a real server and real nodes keep volumes together: claims, attachments,
// stagings and publications, in front of a fake plugin behind the recording proxy. The oracle judges every call. Nobody
// imports it.
package storage

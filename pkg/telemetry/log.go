// SPDX-License-Identifier: Apache-2.0

// Package telemetry makes what processes say about themselves.
package telemetry

import (
	"io"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/berth-project/berth/pkg/compute"
)

// NewLogger writes events with fields to w, which may be any writer: calls are
// made one at a time. Level is debug, info, warn or error; format is console
// for people or json for collectors.
func NewLogger(w io.Writer, level, format string) (*zap.Logger, error) {
	var at zapcore.Level
	switch level {
	case "debug":
		at = zap.DebugLevel
	case "", "info":
		at = zap.InfoLevel
	case "warn":
		at = zap.WarnLevel
	case "error":
		at = zap.ErrorLevel
	default:
		return nil, compute.Invalid("log level", level, "give debug, info, warn or error")
	}
	var encoder zapcore.Encoder
	switch format {
	case "", "console":
		c := zap.NewDevelopmentEncoderConfig()
		c.EncodeTime = zapcore.ISO8601TimeEncoder
		encoder = zapcore.NewConsoleEncoder(c)
	case "json":
		c := zap.NewProductionEncoderConfig()
		c.EncodeTime = zapcore.RFC3339NanoTimeEncoder
		encoder = zapcore.NewJSONEncoder(c)
	default:
		return nil, compute.Invalid("log format", format, "give console or json")
	}
	core := zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), at)
	return zap.New(core, zap.AddStacktrace(zap.DPanicLevel)), nil
}

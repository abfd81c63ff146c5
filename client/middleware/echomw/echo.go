// Package echomw puts a middleware.Guard in front of handlers of Echo. It knows how Echo names
// routes and tells statuses, and nothing else.
package echomw

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/holdfast-dev/holdfast/client/middleware"
)

// New is g as a middleware of Echo: for Use, a group, or one route. Costs are found under the
// method and Echo's path, such as "POST /exports/:id". Otherwise it is as g.Handler; an error
// that a handler returns counts by the status it stands for.
//
// The address of a caller is that of g, by its trusted proxies, whatever Echo's IPExtractor says.
func New(g *middleware.Guard) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) (err error) {
			r := c.Request()
			pass := g.Admit(c.Response(), r, r.Method+" "+c.Path(), r.Method+" "+r.URL.Path)
			if pass == nil {
				return nil
			}
			ctx, cancel := pass.Within(r.Context())
			defer cancel()
			done := false
			defer func() { pass.Leave(ctx, done && statusOf(c, err) < http.StatusInternalServerError) }()
			c.SetRequest(r.WithContext(ctx))
			err = next(c)
			done = true
			return err
		}
	}
}

// statusOf is the status of the answer, or the one that Echo will make of err.
func statusOf(c echo.Context, err error) int {
	if err == nil || c.Response().Committed {
		return c.Response().Status
	}
	if known, ok := errors.AsType[*echo.HTTPError](err); ok {
		return known.Code
	}
	return http.StatusInternalServerError
}

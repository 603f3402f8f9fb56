"""The other families of the ModelNet40 stand-in: vehicles, vessels, instruments, machines, a person.

Each draws its proportions, mostly width, depth and height (w, d, h), then places the parts; z points up. See `Parts`.
"""

import math

from equiset.data.modelnet40.stand_in_parts import Parts


def airplane(make: Parts) -> None:
    length, r, s, c, e, k = make.draw((1.8, 2.6), (0.08, 0.16), (0.7, 1.3), (0.3, 0.6), (0, 1), (-0.9, -0.1))
    zw = -r * 0.4
    make.cyl(0, 0, 0, 2 * r, 2 * r, length, rx=90)
    make.ball(0, -length / 2, 0, 2 * r, 5 * r, 2 * r)
    make.ball(0, length / 2, 0, 1.9 * r, 4 * r, 1.9 * r)
    make.box(s / 2, 0, zw, 0.04, c, s, mirror="x", ry=90, topy=(0.25, 0.6), leany=-k)
    make.box(s * 0.17, length / 2 - 0.05, r * 0.3, 0.03, c * 0.5, s * 0.35, mirror="x", ry=90, topy=0.5, leany=-k)
    make.box(0, length / 2 - 0.08, r + 0.16, 0.03, c * 0.6, 0.34, topy=0.5, leany=0.5)
    make.cyl(s * 0.35, -c * 0.3, zw - 0.09, 0.12, 0.12, 0.32, mirror="x", chance=e, rx=90)
    make.cyl(s * 0.65, -c * 0.1, zw - 0.08, 0.1, 0.1, 0.28, mirror="x", chance=0.3, rx=90)


def bottle(make: Parts) -> None:
    w, h, s, k, q = make.draw((0.3, 0.5), (0.9, 1.4), (0.5, 0.68), (0.22, 0.42), (0, 1))
    make.lathe(
        0, 0, h / 2, w, w, h, radii=(0, 0.95, 1, 1, k * 1.3, k, k, 0), heights=(0, 0, 0.04, s, s + 0.17, s + 0.22, 1, 1)
    )
    make.ring(0, 0, h * 0.95, w * k * 1.2, w * k * 1.2, 0.05, chance=q, tube=0.2)
    make.cyl(0, 0, h * s * 0.5, w * 1.02, w * 1.02, h * s * 0.5, chance=0.5)


def bowl(make: Parts) -> None:
    w, h, k, f = make.draw((0.8, 1.3), (0.28, 0.62), (0.25, 0.5), (0, 1))
    make.lathe(0, 0, h / 2, w, w, h, radii=(0, k, 0.75, 0.93, 1), heights=(0.05, 0.05, 0.3, 0.65, 1))
    make.lathe(
        0, 0, h / 2 + 0.01, w * 0.94, w * 0.94, h, radii=(0, k, 0.75, 0.93, 1), heights=(0.05, 0.05, 0.3, 0.65, 1)
    )
    make.cyl(0, 0, 0, w * k, w * k, 0.08, chance=f, top=0.8)


def car(make: Parts) -> None:
    length, w, h, c = make.draw((1.8, 2.6), (0.75, 1.0), (0.26, 0.4), (0.26, 0.45))
    p, q, r, b = make.draw((-0.2, 0.15), (0.45, 0.62), (0.3, 0.38), (0, 1))
    make.box(0, 0, r * 0.5 + h / 2, w, length, h, topy=0.97, top=0.94)
    make.box(0, length * p, r * 0.5 + h + c / 2, w * 0.92, length * q, c, top=0.8, topy=(0.55, 0.85))
    make.cyl(w / 2 - 0.04, length * 0.31, r / 2, r, r, 0.14, mirror="xy", ry=90)
    make.box(w * 0.53, -length * 0.12, r * 0.5 + h + 0.05, 0.1, 0.07, 0.08, mirror="x", chance=0.5)
    make.box(0, length * 0.47, r * 0.5 + h + 0.12, w * 0.9, 0.12, 0.03, chance=b * 0.4)


def cone(make: Parts) -> None:
    w, h, k, b = make.draw((0.4, 0.8), (0.8, 1.4), (0.0, 0.18), (0, 1))
    make.cyl(0, 0, h / 2, w, w, h, top=k)
    make.box(0, 0, 0, w * 1.35, w * 1.35, 0.05, chance=b)
    make.ring(0, 0, h * 0.5, w * 0.62, w * 0.62, 0.06, chance=0.3, tube=0.15)


def cup(make: Parts) -> None:
    w, h, k, s, g = make.draw((0.5, 0.75), (0.55, 0.95), (0.6, 1.0), (0.4, 0.65), (0, 3))
    make.lathe(0, 0, h / 2, w, w, h, radii=(0, k, (1 + k) / 2, 1), heights=(0, 0, 0.5, 1))
    make.lathe(
        0, 0, h / 2 + 0.02, w * 0.9, w * 0.9, h * 0.95, radii=(0, k, (1 + k) / 2, 1), heights=(0.02, 0.02, 0.5, 1)
    )
    make.ring(w * 0.5 * (1 + k) / 2 + s * 0.2, 0, h * 0.5, s * 0.7, s, 0.12, chance=g > 0, rx=90, tube=0.18)


def flower_pot(make: Parts) -> None:
    w, h, k, n, s = make.draw((0.4, 0.7), (0.35, 0.65), (0.55, 0.85), (4, 12), (0.25, 0.6))
    make.lathe(0, 0, h / 2, w, w, h, radii=(0, k, 1, 1.08, 1.08), heights=(0, 0, 0.85, 0.85, 1))
    make.cyl(0, 0, h * 0.85, w * 0.95, w * 0.95, 0.03)
    for _ in make.repeat(n):
        x, y, z, long = make.draw((-0.2, 0.2), (-0.2, 0.2), (0.3, 0.9), (0.5, 1.0))
        make.ball(x, y, h + s * z, 0.13, 0.05, s * long, rx=(-40, 40), ry=(-40, 40))
    for _ in make.repeat(n // 3):
        make.ball(make.uniform(-0.18, 0.18), make.uniform(-0.18, 0.18), h + s * make.uniform(0.8, 1.2), 0.16, 0.16, 0.1)


def glass_box(make: Parts) -> None:
    w, d, h, f, q = make.draw((0.5, 1.4), (0.4, 1.0), (0.3, 1.2), (0.02, 0.05), (0, 1))
    make.box(0, 0, h / 2, w, d, h)
    make.box(w / 2, d / 2, h / 2, f * 2, f * 2, h, mirror="xy")
    make.box(0, d / 2, h, w, f * 2, f * 2, mirror="y")
    make.box(w / 2, 0, h, f * 2, d, f * 2, mirror="x")
    make.box(0, 0, h * 0.02, w * 1.04, d * 1.04, 0.04, chance=q)


def guitar(make: Parts) -> None:
    b, _, t, n, k, e = make.draw((0.36, 0.5), (0.45, 0.6), (0.07, 0.13), (0.5, 0.75), (0.68, 0.85), (0, 1))
    make.cyl(0, 0, b * 0.4, b * 1.05, b * 0.85, t, rx=90)
    make.cyl(0, 0, b * 1.1, b * k, b * k, t, rx=90)
    make.box(0, 0, b * 0.75, b * 0.62, t, b * 0.5)
    make.box(0, -t * 0.55, b * 1.2 + n / 2, 0.06, 0.04, n + 0.2)
    make.box(0, -t * 0.4, b * 1.2 + n + 0.18, 0.12, 0.04, 0.2, top=1.2)
    make.cyl(0, -t * 0.52, b * 0.85, b * 0.3, b * 0.3, 0.01, chance=1 - e, rx=90)
    make.box(b * 0.33, 0, b * 1.45, 0.1, t, 0.3, mirror="x", chance=e, top=0.3, lean=0.3)


def keyboard(make: Parts) -> None:
    w, d, t, n, m, k = make.draw((1.1, 1.6), (0.35, 0.55), (0.03, 0.07), (4, 6), (10, 15), (0.0, 6.0))
    e = 0.88 * d
    make.box(0, 0, 0, w, d, t, rx=k)
    for i in make.repeat(n * m):
        x, y = w * 0.94 * ((i % m + 0.5) / m - 0.5), e * ((i // m + 0.5) / n - 0.5)
        make.box(x, y, t * 0.7 + y * k / 57, w / m * 0.75, d / n * 0.7, 0.03, top=0.8, topy=0.8)


def laptop(make: Parts) -> None:
    w, d, t, a = make.draw((0.9, 1.2), (0.6, 0.85), (0.03, 0.07), (5.0, 40.0))
    k = a / 57.3
    make.box(0, 0, 0, w, d, t)
    make.box(0, d / 2 + d * 0.48 * math.sin(k), d * 0.48 * math.cos(k), w, 0.03, d * 0.95, rx=-a)
    for i in make.repeat(36):
        make.box(w * 0.85 * ((i % 9 + 0.5) / 9 - 0.5), d * (0.02 + 0.1 * (i // 9)), t * 0.6, w * 0.07, d * 0.07, 0.02)
    make.box(0, -d * 0.28, t * 0.55, w * 0.25, d * 0.25, 0.01)


def monitor(make: Parts) -> None:
    w, h, t, s, b, c = make.draw((0.8, 1.3), (0.5, 0.8), (0.05, 0.14), (0.1, 0.28), (0.3, 0.5), (0, 2))
    make.box(0, 0, s + h / 2, w, t, h, rx=(-8, 4))
    make.box(0, -t * 0.55, s + h / 2, w * 0.9, 0.01, h * 0.86)
    make.box(0, t * 1.4, s + h / 2, w * 0.6, t * 2.5, h * 0.65, chance=c == 2, top=0.8)
    make.box(0, t * 0.5, s * 0.6, 0.12, 0.06, s * 1.5)
    make.box(0, 0, 0.02, b, b * 0.7, 0.04, chance=c != 1)
    make.cyl(0, 0, 0.02, b, b * 0.8, 0.04, chance=c == 1, top=0.85)


def person(make: Parts) -> None:
    h, w, a, spread = make.draw((1.5, 1.9), (0.36, 0.5), (4.0, 75.0), (2.0, 14.0))
    b = a / 57.3
    make.ball(0, 0, h * 0.93, 0.19, 0.22, 0.26)
    make.cyl(0, 0, h * 0.85, 0.1, 0.1, 0.1)
    make.box(0, 0, h * 0.66, w * 0.75, 0.22, h * 0.34, top=1.25)
    x, z = w * 0.5 + h * 0.16 * math.sin(b), h * 0.81 - h * 0.16 * math.cos(b)
    make.cyl(x, 0, z, 0.09, 0.09, h * 0.34, mirror="x", ry=180 - a, top=1.2)
    make.cyl(w * 0.18 + h * 0.02, 0, h * 0.25, 0.15, 0.17, h * 0.5, mirror="x", ry=-spread * 0.5, top=1.25)
    make.box(w * 0.22 + h * 0.03, -0.06, 0.03, 0.1, 0.26, 0.08, mirror="x")


def piano(make: Parts) -> None:
    w, d, h, k, c = make.draw((1.3, 1.6), (0.5, 0.65), (1.0, 1.35), (0.62, 0.75), (0, 1))
    make.box(0, d * 0.2, h / 2, w, d * 0.6, h, chance=1 - c)
    make.box(0, -d * 0.22, k, w, d * 0.55, 0.12, chance=1 - c)
    make.box(w * 0.46, -d * 0.4, k / 2, 0.08, 0.08, k, mirror="x", chance=1 - c)
    make.box(0, -0.25, 0.8, w, 0.9, 0.28, chance=c)
    make.cyl(-w * 0.12, 0.3, 0.8, w * 0.76, 1.2, 0.28, chance=c)
    make.box(-w * 0.1, 0.2, 1.2, w * 0.8, 1.1, 0.03, chance=c, ry=35)
    make.cyl(w * 0.4, -0.5, 0.35, 0.1, 0.1, 0.7, mirror="x", chance=c)
    make.cyl(0, 0.7, 0.35, 0.1, 0.1, 0.7, chance=c)
    for i in make.repeat(24):
        make.box(w * 0.9 * ((i + 0.5) / 24 - 0.5), -d * 0.3 - c * 0.42, k + 0.07 + c * 0.24, w * 0.028, d * 0.3, 0.03)
    make.box(0, -d * 1.3 - c * 0.5, 0.45, 0.7, 0.35, 0.08, chance=0.3)


def plant(make: Parts) -> None:
    w, h, s, n, a, f = make.draw((0.25, 0.5), (0.2, 0.5), (0.6, 1.4), (12, 30), (20.0, 55.0), (0.12, 0.25))
    make.lathe(0, 0, h / 2, w, w, h, radii=(0, 0.7, 1), heights=(0, 0, 1))
    make.cyl(0, 0, h + s * 0.3, 0.05, 0.05, s * 0.6, chance=0.7)
    for _ in make.repeat(n):
        x, y, z, long = make.draw((-0.5, 0.5), (-0.5, 0.5), (0.25, 1.0), (0.25, 0.55))
        make.ball(x * s * 0.6, y * s * 0.6, h + s * z, f, 0.04, s * long, rx=(-a, a), ry=(-a, a), rz=(0, 180))


def radio(make: Parts) -> None:
    w, h, d, c, n = make.draw((0.8, 1.3), (0.4, 0.75), (0.22, 0.4), (0, 1), (2, 5))
    make.box(0, 0, h / 2, w, d, h, top=(0.9, 1))
    make.cyl(w * 0.28, -d * 0.52, h * 0.45, h * 0.6, h * 0.6, 0.05, mirror="x", chance=c, rx=90)
    make.cyl(-w * 0.22, -d * 0.52, h * 0.5, h * 0.7, h * 0.7, 0.05, chance=1 - c, rx=90)
    for i in make.repeat(n):
        make.cyl(w * (0.1 + 0.3 * i / n), -d * 0.54, h * 0.75, 0.07, 0.07, 0.06, rx=90)
    make.cyl(w * 0.42, d * 0.3, h + 0.3, 0.02, 0.02, 0.8, chance=0.7, ry=(-50, 30))
    make.box(w * 0.4, 0, h + 0.08, 0.04, 0.06, 0.18, mirror="x", chance=0.5)
    make.box(0, 0, h + 0.17, w * 0.84, 0.07, 0.04, chance=0.5)


def tent(make: Parts) -> None:
    w, length, h, c, k = make.draw((1.2, 2.0), (1.4, 2.4), (0.9, 1.5), (0, 2), (0.0, 0.3))
    make.box(0, 0, h / 2, w, length, h, chance=c == 0, top=k * 0.2, topy=(0.8, 1))
    make.dome(0, 0, h / 2, w * 1.1, length, h, chance=c == 1)
    make.box(0, 0, h * 0.72, w * 1.05, length * 1.05, h * 0.55, chance=c == 2, top=k, topy=(0.1, 0.8))
    make.box(0, 0, h * 0.25, w, length, h * 0.5, chance=c == 2)
    make.cyl(0, length * 0.5, h / 2, 0.04, 0.04, h, mirror="y", chance=0.5)
    make.box(0, -length * 0.6, h * 0.3, w * 0.5, length * 0.3, h * 0.6, chance=0.3, top=0.1)


def vase(make: Parts) -> None:
    w, h, a, b = make.draw((0.35, 0.7), (0.7, 1.3), (0.3, 0.8), (0.6, 1.0))
    c, e, m = make.draw((0.22, 0.65), (0.3, 0.8), (0.25, 0.6))
    radii, heights = (0, a, (a + b) / 2 * 1.05, b, (b + c) / 2, c, e), (0, 0, m / 2, m, (m + 0.85) / 2, 0.85, 1)
    make.lathe(0, 0, h / 2, w, w, h, radii=radii, heights=heights)
    make.cyl(0, 0, 0.02, w * a * 1.1, w * a * 1.1, 0.05, chance=0.3)
    make.ring(w * b * 0.5, 0, h * 0.7, w * 0.35, h * 0.3, 0.05, mirror="x", chance=0.2, rx=90, tube=0.2)


def xbox(make: Parts) -> None:
    w, d, h, c, k = make.draw((0.7, 1.0), (0.6, 0.9), (0.18, 0.32), (0, 2), (0.8, 1.0))
    make.box(0, 0, h / 2, w, d, h, chance=c < 2, top=k, topy=k)
    make.box(0, 0, w * 0.45, h, d, w * 0.9, chance=c == 2, topy=k)
    make.box(w * 0.1, -d * 0.48, h * 0.45, w * 0.5, 0.06, h * 0.25, chance=c < 2)
    make.cyl(0, 0, h, 0.3, 0.3, 0.04, chance=c == 0)
    make.box(w * 0.25, -d * 0.9, 0.05, 0.22, 0.16, 0.09, mirror="x", chance=0.5, top=0.8, topy=0.7)
    for i in make.repeat((c == 1) * 5):
        make.box(w * (0.2 + 0.06 * i), 0, h, 0.02, d * 0.7, 0.03)

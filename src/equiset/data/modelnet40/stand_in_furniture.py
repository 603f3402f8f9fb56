"""The families of the ModelNet40 stand-in that furnish a house: how a mesh of each class is put together.

Each draws its proportions, mostly width, depth and height (w, d, h), then places the parts; z points up. See `Parts`.
"""

import math

from equiset.data.modelnet40.stand_in_parts import Parts


def bathtub(make: Parts) -> None:
    w, length, h, f, o = make.draw((0.6, 0.9), (1.3, 2.0), (0.4, 0.7), (0, 1), (0, 1))
    make.lathe(0, 0, h / 2, w, length, h, radii=(0, 0.7, 0.9, 1), heights=(0.08, 0.08, 0.5, 1))
    make.lathe(0, 0, h / 2, w, length, h, radii=(0.75, 1, 1.08), heights=(0, 0.8, 1))
    make.box(0, 0, h * 0.97, w * 1.2, length * 1.12, 0.02, chance=o)
    make.cyl(w * 0.3, length * 0.32, -0.06, 0.08, 0.08, 0.16, mirror="xy", chance=f, top=0.6)
    make.cyl(0, length * 0.47, h + 0.08, 0.05, 0.05, 0.2)
    make.cyl(0, length * 0.43, h + 0.18, 0.04, 0.04, 0.16, chance=0.5, rx=90)


def bed(make: Parts) -> None:
    w, length, h, b, f, q = make.draw((0.9, 1.8), (1.8, 2.2), (0.3, 0.55), (0.3, 0.9), (0.0, 0.4), (0, 1))
    make.box(0, 0, h * 0.75, w, length, h * 0.5)
    make.box(0, length / 2, (h + b) / 2, w * 1.04, 0.07, h + b)
    make.box(0, -length / 2, (h + f) / 2, w * 1.04, 0.06, h + f, chance=0.6)
    make.box(w * 0.23, length * 0.38, h + 0.05, w * 0.36, 0.32, 0.12, mirror="x", top=0.8, topy=0.7)
    make.box(w * 0.45, length * 0.46, h * 0.25, 0.08, 0.08, h * 0.5, mirror="xy")
    make.box(0, 0, h * 0.4, w * 0.98, length * 0.98, h * 0.25, chance=q)


def bench(make: Parts) -> None:
    w, d, h, b, c, t = make.draw((1.2, 2.2), (0.35, 0.55), (0.38, 0.52), (0.35, 0.6), (0, 1), (0.04, 0.08))
    make.box(0, 0, h, w, d, t)
    make.box(w * 0.42, 0, h / 2, 0.07, d * 0.9, h, mirror="x", chance=c)
    make.box(w * 0.43, d * 0.4, h / 2, 0.07, 0.07, h, mirror="xy", chance=1 - c)
    make.box(0, d * 0.47, h + b * 0.75, w, 0.04, b * 0.5, chance=0.55, rx=-8)
    make.box(w * 0.45, d * 0.45, h + b / 2, 0.06, 0.05, b, mirror="x", chance=0.55)
    make.box(0, 0, h * 0.3, w * 0.84, 0.05, 0.05, chance=0.4)


def bookshelf(make: Parts) -> None:
    w, d, h, n, v, k = make.draw((0.7, 1.5), (0.25, 0.4), (1.3, 2.2), (3, 6), (0, 2), (0, 1))
    make.box(w / 2, 0, h / 2, 0.04, d, h, mirror="x")
    for i in make.repeat(n):
        make.box(0, 0, 0.04 + (h - 0.08) * i / (n - 1), w, d, 0.04)
    make.box(0, d * 0.48, h / 2, w, 0.02, h)
    for i in make.repeat(v):
        make.box(w * ((i + 1) / (v + 1) - 0.5), 0, h / 2, 0.03, d, h)
    for i in make.repeat(k * 6):
        x, z = w * make.uniform(-0.4, 0.4), 0.04 + (h - 0.08) * (i % (n - 1)) / (n - 1) + 0.12
        make.box(x, 0, z, make.uniform(0.1, 0.3), d * 0.7, 0.2)


def chair(make: Parts) -> None:
    w, d, h, b = make.draw((0.42, 0.6), (0.4, 0.58), (0.38, 0.5), (0.4, 0.7))
    t, c, a, k = make.draw((0.03, 0.09), (0, 3), (0.15, 0.28), (-12.0, 0.0))
    make.box(0, 0, h, w, d, t)
    make.box(0, d * 0.47, h + b / 2, w * 0.96, 0.05, b, chance=c > 1, rx=k)
    make.box(w * 0.44, d * 0.46, h + b / 2, 0.05, 0.05, b, mirror="x", chance=c < 2, rx=k)
    make.box(0, d * 0.47, h + b * 0.8, w, 0.04, b * 0.35, chance=c == 0, rx=k)
    for i in make.repeat((c == 1) * 4):
        make.box(w * (i - 1.5) * 0.2, d * 0.46, h + b / 2, 0.03, 0.03, b, rx=k)
    make.box(0, d * 0.46, h + b, w, 0.05, 0.08, chance=c == 1)
    make.box(w * 0.43, d * 0.43, h / 2, 0.05, 0.05, h, mirror="xy", chance=c != 3, top=0.7, topy=0.7)
    make.cyl(0, 0, h / 2, 0.07, 0.07, h, chance=c == 3)
    for i in make.repeat((c == 3) * 5):
        make.box(0.17 * math.cos(1.257 * i), 0.17 * math.sin(1.257 * i), 0.05, 0.36, 0.05, 0.05, rz=72 * i)
    make.box(w * 0.5, 0, h + a, 0.05, d * 0.9, 0.05, mirror="x", chance=0.35)
    make.box(w * 0.5, -d * 0.38, h + a / 2, 0.04, 0.05, a, mirror="x", chance=0.35)


def curtain(make: Parts) -> None:
    w, h, n, g, a = make.draw((1.0, 1.8), (1.5, 2.4), (7, 14), (0.0, 0.4), (0.03, 0.09))
    for i in make.repeat(n):
        x, side = w * (i / (n - 1) - 0.5) * (1 - g), i % 2 - 0.5
        make.box(x, a * side, h / 2, w / n * 1.15, 0.02, h, rz=side * 70)
    make.cyl(0, 0, h + 0.03, 0.05, 0.05, w * 1.15, ry=90)
    make.ball(w * 0.6, 0, h + 0.03, 0.1, 0.1, 0.1, mirror="x", chance=0.6)


def desk(make: Parts) -> None:
    w, d, h, t, c, q = make.draw((1.2, 1.9), (0.6, 0.9), (0.7, 0.8), (0.03, 0.06), (0, 2), (0.3, 0.45))
    make.box(0, 0, h, w, d, t)
    make.box(w * 0.47, 0, h / 2, 0.05, d * 0.95, h, mirror="x", chance=c == 0)
    make.box(w * 0.5 - q * 0.55, 0, h * 0.55, q, d * 0.92, h * 0.85, chance=c > 0)
    for i in make.repeat((c > 0) * 3):
        make.box(w * 0.5 - q * 0.55, -d * 0.47, h * (0.25 + 0.27 * i), q * 0.85, 0.03, h * 0.2)
    make.box(-w * 0.5 + q * 0.55, 0, h * 0.55, q, d * 0.92, h * 0.85, chance=c == 2)
    make.box(-w * 0.46, d * 0.42, h / 2, 0.06, 0.06, h, mirror="y", chance=c == 1)
    make.box(0, d * 0.4, h * 0.6, w * 0.92, 0.03, h * 0.6, chance=0.6)
    for _ in make.repeat(1, chance=0.35):
        make.box(w * make.uniform(-0.3, 0.3), d * 0.2, h + 0.2, 0.5, 0.04, 0.35)


def door(make: Parts) -> None:
    w, h, t, f, n = make.draw((0.75, 1.1), (1.9, 2.3), (0.04, 0.09), (0, 1), (0, 2))
    make.box(0, 0, h / 2, w, t, h)
    make.box(w * 0.54, 0, h / 2, 0.08, t * 2, h, mirror="x", chance=f)
    make.box(0, 0, h + 0.04, w * 1.16, t * 2, 0.08, chance=f)
    make.ball(w * 0.4, t + 0.03, h * 0.48, 0.07, 0.07, 0.07, mirror="y")
    for i in make.repeat(n):
        make.box(0, t * 0.6, h * (0.27 + 0.45 * i), w * 0.65, 0.02, h * 0.33, mirror="y")


def dresser(make: Parts) -> None:
    w, d, h, n, m, leg, q = make.draw((1.0, 1.7), (0.4, 0.6), (0.7, 1.15), (2, 4), (2, 3), (0.06, 0.18), (0, 1))
    make.box(0, 0, leg + h / 2, w, d, h)
    for i in make.repeat(n * m):
        make.box(w * ((i % m + 0.5) / m - 0.5), -d / 2, leg + h * (i // m + 0.5) / n, w / m * 0.88, 0.04, h / n * 0.8)
    for i in make.repeat(n * m):
        make.ball(w * ((i % m + 0.5) / m - 0.5), -d / 2 - 0.04, leg + h * (i // m + 0.5) / n, 0.05, 0.05, 0.05)
    make.box(w * 0.46, d * 0.43, leg / 2, 0.07, 0.07, leg, mirror="xy")
    make.box(0, d * 0.45, leg + h + 0.3, w * 0.6, 0.04, 0.6, chance=q * 0.5)


def lamp(make: Parts) -> None:
    w, h, s, k, p, c = make.draw((0.3, 0.5), (0.7, 1.6), (0.3, 0.65), (0.4, 0.85), (0.03, 0.07), (0, 2))
    make.cyl(0, 0, 0.03, w * 0.9, w * 0.9, 0.06, top=0.8)
    make.cyl(0, 0, h / 2, p, p, h, chance=c < 2)
    make.lathe(0, 0, h * 0.45, 0.3, 0.3, h * 0.9, chance=c == 2, radii=(0.5, 1, 0.7, 0.15), heights=(0, 0.3, 0.6, 1))
    for _ in make.repeat(1):
        make.lathe(0, 0, h, s, s, s * make.uniform(0.6, 0.95), radii=(1, k * 0.95), heights=(0, 1))
    make.ball(0, 0, h, 0.12, 0.12, 0.16, chance=c == 1)


def mantel(make: Parts) -> None:
    w, h, d, c, t, q = make.draw((1.2, 1.8), (0.9, 1.3), (0.2, 0.4), (0.14, 0.26), (0.08, 0.16), (0, 1))
    make.box(w / 2 - c / 2, 0, h / 2, c, d, h, mirror="x")
    make.box(0, 0, h - 0.1, w, d, 0.22)
    make.box(0, -d * 0.08, h + t / 2, w * 1.14, d * 1.3, t)
    make.box(0, d * 0.48, h / 2, w * 0.95, 0.03, h, chance=q)
    make.box(0, -d * 0.3, 0.03, w * 1.1, d * 1.9, 0.06, chance=0.5)
    make.box(w / 2 - c / 2, -d * 0.1, 0.08, c * 1.25, d * 1.2, 0.16, mirror="x", chance=0.5)


def night_stand(make: Parts) -> None:
    w, d, h, leg, n, c = make.draw((0.42, 0.65), (0.35, 0.55), (0.4, 0.7), (0.04, 0.25), (1, 3), (0, 1))
    make.box(0, 0, leg + h / 2, w, d, h)
    make.box(0, 0, leg + h + 0.02, w * 1.1, d * 1.1, 0.04)
    for i in make.repeat(n):
        make.box(0, -d / 2, leg + h * (i + 0.5) / n, w * 0.85, 0.04, h / n * 0.8)
    for i in make.repeat(n):
        make.ball(0, -d / 2 - 0.04, leg + h * (i + 0.5) / n, 0.06, 0.06, 0.06)
    make.box(w * 0.44, d * 0.43, leg / 2, 0.05, 0.05, leg, mirror="xy", chance=c)
    make.box(0, 0, leg / 2, w * 0.9, d * 0.9, leg, chance=1 - c)


def range_hood(make: Parts) -> None:
    w, d, h, c, t, q = make.draw((0.7, 1.1), (0.45, 0.65), (0.2, 0.45), (0.2, 0.34), (0.5, 0.9), (0, 2))
    make.box(0, 0, h / 2, w, d, h, chance=q < 2, top=c / w, topy=c / d)
    make.box(0, (q == 2) * d * 0.2, h + t / 2, c, c, t)
    make.box(0, 0, -0.04, w, d, 0.09)
    make.box(0, 0, 0.12, w, d, 0.14, chance=q == 2, topy=0.5, leany=0.2)


def sink(make: Parts) -> None:
    w, d, h, k, c, p = make.draw((0.6, 1.1), (0.45, 0.65), (0.18, 0.3), (0.55, 0.8), (0, 2), (0.6, 0.85))
    make.lathe(0, 0, -h / 2, w * k, d * k, h, radii=(0, 0.6, 0.9, 1), heights=(0, 0, 0.3, 1))
    make.box(w * (1 + k) / 4, 0, 0, w * (1 - k) / 2, d, 0.04, mirror="x")
    make.box(0, d * (1 + k) / 4, 0, w * k, d * (1 - k) / 2, 0.04, mirror="y")
    make.cyl(0, d * 0.42, 0.12, 0.05, 0.05, 0.24)
    make.cyl(0, d * 0.3, 0.24, 0.04, 0.04, d * 0.3, rx=90)
    make.cyl(0.14, d * 0.42, 0.05, 0.05, 0.05, 0.1, mirror="x")
    make.cyl(0, d * 0.1, -h - p / 2, 0.16, 0.16, p, chance=c == 1, top=1.3)
    make.box(0, 0, -h / 2 - 0.05, w * 0.96, d * 0.96, h + 0.1, chance=c == 2)


def sofa(make: Parts) -> None:
    w, d, h, b = make.draw((1.4, 2.4), (0.75, 1.0), (0.36, 0.46), (0.3, 0.5))
    a, e, n = make.draw((0.12, 0.25), (0.12, 0.28), (1, 3))
    make.box(0, 0, h * 0.55, w, d, h * 0.8)
    for i in make.repeat(n):
        make.box(w * 0.9 * ((i + 0.5) / n - 0.5), -d * 0.05, h + 0.04, w * 0.88 / n, d * 0.8, 0.12, top=0.96, topy=0.94)
    make.box(0, d * 0.42, h + b * 0.5, w, d * 0.2, b, rx=-6)
    make.box(w / 2, 0, (h + e) / 2 + 0.05, a, d, h + e, mirror="x", top=0.9)
    make.box(w * 0.46, d * 0.42, 0.03, 0.07, 0.07, 0.12, mirror="xy", chance=0.6)


def stairs(make: Parts) -> None:
    n, w, r, g, c, q = make.draw((5, 11), (0.7, 1.2), (0.15, 0.2), (0.22, 0.3), (0, 1), (0, 1))
    for i in make.repeat(n):
        make.box(0, g * i, r * (i + 0.5), w, g * 1.02, r)
    for i in make.repeat((1 - c) * n):
        make.box(0, g * i + g * 0.5, r * i * 0.5, w, g * 0.95, r * i + 0.01)
    y, z, rail, slope = g * (n - 1) / 2, r * n * 0.5, math.hypot(g, r) * n, -57.3 * math.atan2(g, r)
    make.box(w * 0.5, y, z - 0.05, 0.05, 0.2, rail, mirror="x", chance=c, rx=slope)
    make.box(w * 0.5, y, z + 0.85, 0.05, 0.05, rail, mirror="x", chance=q, rx=slope)
    for i in make.repeat(q * n):
        make.box(w * 0.5, g * i, r * i + 0.5, 0.03, 0.03, 0.8, mirror="x")


def stool(make: Parts) -> None:
    w, h, t, c, s = make.draw((0.32, 0.45), (0.45, 0.8), (0.03, 0.09), (0, 2), (1.0, 1.3))
    make.cyl(0, 0, h, w, w, t, chance=c < 2)
    make.box(0, 0, h, w, w * 0.9, t, chance=c == 2)
    make.cyl(w * 0.36 * s, w * 0.36 * s * 0.9, h / 2, 0.04, 0.04, h, mirror="xy", chance=c != 1)
    make.cyl(0, 0, h / 2, 0.06, 0.06, h, chance=c == 1)
    make.cyl(0, 0, 0.02, w, w, 0.04, chance=c == 1, top=0.7)
    make.ring(0, 0, h * 0.35, w * 1.05 * s, w * 1.05 * s, 0.04, chance=0.5, tube=0.06)


def table(make: Parts) -> None:
    w, d, h, t, leg, c = make.draw((0.9, 2.0), (0.6, 1.2), (0.45, 0.8), (0.03, 0.07), (0.04, 0.1), (0, 3))
    make.box(0, 0, h, w, d, t, chance=c < 3)
    make.cyl(0, 0, h, w * 0.8, w * 0.8, t, chance=c == 3)
    make.box(w / 2 - leg, d / 2 - leg, h / 2, leg, leg, h, mirror="xy", chance=c < 2, top=(0.6, 1))
    make.box(w * 0.36, 0, h / 2, 0.06, d * 0.75, h, mirror="x", chance=c == 2)
    make.cyl(0, 0, h / 2, 0.12, 0.12, h, chance=c == 3)
    make.cyl(0, 0, 0.03, w * 0.4, w * 0.4, 0.06, chance=c == 3, top=0.6)
    make.box(0, 0, h * 0.3, w * 0.85, d * 0.85, 0.03, chance=c == 1)


def toilet(make: Parts) -> None:
    w, d, h, t, q = make.draw((0.36, 0.46), (0.48, 0.6), (0.36, 0.44), (0.32, 0.45), (0, 1))
    make.lathe(0, -d * 0.1, h / 2, w, d, h, radii=(0.6, 0.5, 0.65, 1), heights=(0, 0.25, 0.55, 1))
    make.lathe(0, -d * 0.1, h * 0.75, w * 0.8, d * 0.8, h * 0.5, radii=(0, 0.5, 1), heights=(0.05, 0.1, 1))
    make.ring(0, -d * 0.1, h + 0.02, w, d, 0.05, tube=0.2)
    make.box(0, d * 0.42, h + t / 2 - 0.03, w * 1.15, 0.2, t, top=1.06)
    make.box(0, d * 0.42, h + t - 0.02, w * 1.25, 0.22, 0.04)
    make.ball(0, d * 0.2, h + 0.22, w * 0.95, 0.05, 0.46, chance=q)
    make.box(0, d * 0.3, h * 0.45, w * 0.55, d * 0.4, h * 0.9)


def tv_stand(make: Parts) -> None:
    w, d, h, n, m, c, leg = make.draw((1.1, 1.8), (0.35, 0.55), (0.35, 0.65), (2, 3), (0, 3), (0, 1), (0.0, 0.12))
    for i in make.repeat(n):
        make.box(0, 0, leg + h * i / (n - 1), w, d, 0.04)
    make.box(w * 0.48, 0, leg + h / 2, 0.05, d, h, mirror="x")
    for i in make.repeat(m):
        make.box(w * ((i + 1) / (m + 1) - 0.5), 0, leg + h / 2, 0.03, d * 0.95, h)
    make.box(0, d * 0.47, leg + h / 2, w, 0.02, h, chance=0.5)
    make.box(w * 0.3, -d * 0.48, leg + h / 2, w * 0.35, 0.03, h * 0.9, chance=c)
    make.box(w * 0.44, d * 0.4, leg / 2, 0.06, 0.06, leg + 0.02, mirror="xy")
    make.box(0, d * 0.1, leg + h + 0.35, w * 0.7, 0.06, 0.55, chance=0.2)


def wardrobe(make: Parts) -> None:
    w, d, h, n, leg, q = make.draw((0.8, 1.8), (0.45, 0.65), (1.7, 2.2), (2, 4), (0.03, 0.12), (0, 1))
    make.box(0, 0, leg + h / 2, w, d, h)
    for i in make.repeat(n):
        make.box(w * ((i + 0.5) / n - 0.5), -d / 2, leg + h * 0.52, w / n * 0.92, 0.04, h * 0.9)
    for i in make.repeat(n):
        make.cyl(
            w * ((i + 0.5) / n - 0.5) + w / n * 0.35 * (1 - 2 * (i % 2)), -d / 2 - 0.04, leg + h * 0.5, 0.03, 0.03, 0.2
        )
    make.box(0, 0, leg + h + 0.03, w * 1.08, d * 1.1, 0.06, chance=q)
    make.box(w * 0.45, d * 0.42, leg / 2, 0.08, 0.08, leg, mirror="xy")

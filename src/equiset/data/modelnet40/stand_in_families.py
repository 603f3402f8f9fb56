"""The families of the ModelNet40 stand-in: parts and proportions, as data.

A paragraph is a class. Its first line names the proportions that are drawn for each mesh: `w=1:2` from a range,
`n=2..5` a whole number, `k=(w/2)` computed. Every further line is a part:

    shape[*axes][?chance][@copies]  x y z  width depth height  [option=value ...]

- shapes: `box`, `cyl`, `ball`, `dome` (upper half of a ball), `ring` (torus), `lathe` (a profile turned about z);
- x y z is the middle of the part, z points up; the part fills width x depth x height before it is turned;
- `*x`, `*y`, `*xy` add mirror images, `?p` makes a part optional, `@n` repeats it with i = 0 ... n-1;
- options: `rx ry rz` turn it (degrees); `top topy` scale the upper end of a box or cylinder along x and y;
  `lean leany` shift that end; `r z` are the profile of a lathe (radii, heights from 0 to 1); `tube` is the thickness
  of a ring; `seg` is the number of sides.

Any number may be an expression of the proportions; `u(a,b)` is drawn anew for each copy.
"""

FAMILIES = """
airplane: l=1.8:2.6 r=.08:.16 s=.7:1.3 c=.3:.6 e=0..1 k=-.9:-.1 zw=(-r*.4)
  cyl 0 0 0  2*r 2*r l  rx=90
  ball 0 -l/2 0  2*r 5*r 2*r
  ball 0 l/2 0  1.9*r 4*r 1.9*r
  box*x s/2 0 zw  .04 c s  ry=90 topy=u(.25,.6) leany=-k
  box*x s*.17 l/2-.05 r*.3  .03 c*.5 s*.35  ry=90 topy=.5 leany=-k
  box 0 l/2-.08 r+.16  .03 c*.6 .34  topy=.5 leany=.5
  cyl*x?e s*.35 -c*.3 zw-.09  .12 .12 .32  rx=90
  cyl*x?.3 s*.65 -c*.1 zw-.08  .1 .1 .28  rx=90

bathtub: w=.6:.9 l=1.3:2 h=.4:.7 f=0..1 o=0..1
  lathe 0 0 h/2  w l h  r=0,.7,.9,1 z=.08,.08,.5,1
  lathe 0 0 h/2  w l h  r=.75,1,1.08 z=0,.8,1
  box?o 0 0 h*.97  w*1.2 l*1.12 .02
  cyl*xy?f w*.3 l*.32 -.06  .08 .08 .16  top=.6
  cyl 0 l*.47 h+.08  .05 .05 .2
  cyl?.5 0 l*.43 h+.18  .04 .04 .16  rx=90

bed: w=.9:1.8 l=1.8:2.2 h=.3:.55 b=.3:.9 f=0:.4 q=0..1
  box 0 0 h*.75  w l h*.5
  box 0 l/2 (h+b)/2  w*1.04 .07 h+b
  box?.6 0 -l/2 (h+f)/2  w*1.04 .06 h+f
  box*x w*.23 l*.38 h+.05  w*.36 .32 .12  top=.8 topy=.7
  box*xy w*.45 l*.46 h*.25  .08 .08 h*.5
  box?q 0 0 h*.4  w*.98 l*.98 h*.25

bench: w=1.2:2.2 d=.35:.55 h=.38:.52 b=.35:.6 c=0..1 t=.04:.08
  box 0 0 h  w d t
  box*x?c w*.42 0 h/2  .07 d*.9 h
  box*xy?1-c w*.43 d*.4 h/2  .07 .07 h
  box?.55 0 d*.47 h+b*.75  w .04 b*.5  rx=-8
  box*x?.55 w*.45 d*.45 h+b/2  .06 .05 b
  box?.4 0 0 h*.3  w*.84 .05 .05

bookshelf: w=.7:1.5 d=.25:.4 h=1.3:2.2 n=3..6 v=0..2 k=0..1
  box*x w/2 0 h/2  .04 d h
  box@n 0 0 .04+(h-.08)*i/(n-1)  w d .04
  box 0 d*.48 h/2  w .02 h
  box@v w*((i+1)/(v+1)-.5) 0 h/2  .03 d h
  box@k*6 w*u(-.4,.4) 0 .04+(h-.08)*(i%(n-1))/(n-1)+.12  u(.1,.3) d*.7 .2

bottle: w=.3:.5 h=.9:1.4 s=.5:.68 k=.22:.42 q=0..1
  lathe 0 0 h/2  w w h  r=0,.95,1,1,k*1.3,k,k,0 z=0,0,.04,s,s+.17,s+.22,1,1
  ring?q 0 0 h*.95  w*k*1.2 w*k*1.2 .05  tube=.2
  cyl?.5 0 0 h*s*.5  w*1.02 w*1.02 h*s*.5

bowl: w=.8:1.3 h=.28:.62 k=.25:.5 f=0..1
  lathe 0 0 h/2  w w h  r=0,k,.75,.93,1 z=.05,.05,.3,.65,1
  lathe 0 0 h/2+.01  w*.94 w*.94 h  r=0,k,.75,.93,1 z=.05,.05,.3,.65,1
  cyl?f 0 0 0  w*k w*k .08  top=.8

car: l=1.8:2.6 w=.75:1 h=.26:.4 c=.26:.45 p=-.2:.15 q=.45:.62 r=.3:.38 b=0..1
  box 0 0 r*.5+h/2  w l h  topy=.97 top=.94
  box 0 l*p r*.5+h+c/2  w*.92 l*q c  top=.8 topy=u(.55,.85)
  cyl*xy w/2-.04 l*.31 r/2  r r .14  ry=90
  box*x?.5 w*.53 -l*.12 r*.5+h+.05  .1 .07 .08
  box?b*.4 0 l*.47 r*.5+h+.12  w*.9 .12 .03

chair: w=.42:.6 d=.4:.58 h=.38:.5 b=.4:.7 t=.03:.09 c=0..3 a=.15:.28 k=-12:0
  box 0 0 h  w d t
  box?c>1 0 d*.47 h+b/2  w*.96 .05 b  rx=k
  box*x?c<2 w*.44 d*.46 h+b/2  .05 .05 b  rx=k
  box?c==0 0 d*.47 h+b*.8  w .04 b*.35  rx=k
  box@(c==1)*4 w*(i-1.5)*.2 d*.46 h+b/2  .03 .03 b  rx=k
  box?c==1 0 d*.46 h+b  w .05 .08
  box*xy?c!=3 w*.43 d*.43 h/2  .05 .05 h  top=.7 topy=.7
  cyl?c==3 0 0 h/2  .07 .07 h
  box@(c==3)*5 .17*cos(1.257*i) .17*sin(1.257*i) .05  .36 .05 .05  rz=72*i
  box*x?.35 w*.5 0 h+a  .05 d*.9 .05
  box*x?.35 w*.5 -d*.38 h+a/2  .04 .05 a

cone: w=.4:.8 h=.8:1.4 k=0:.18 b=0..1
  cyl 0 0 h/2  w w h  top=k
  box?b 0 0 0  w*1.35 w*1.35 .05
  ring?.3 0 0 h*.5  w*.62 w*.62 .06  tube=.15

cup: w=.5:.75 h=.55:.95 k=.6:1 s=.4:.65 g=0..3
  lathe 0 0 h/2  w w h  r=0,k,(1+k)/2,1 z=0,0,.5,1
  lathe 0 0 h/2+.02  w*.9 w*.9 h*.95  r=0,k,(1+k)/2,1 z=.02,.02,.5,1
  ring?g>0 w*.5*(1+k)/2+s*.2 0 h*.5  s*.7 s .12  rx=90 tube=.18

curtain: w=1:1.8 h=1.5:2.4 n=7..14 g=0:.4 a=.03:.09
  box@n w*(i/(n-1)-.5)*(1-g)-0 a*(i%2-.5) h/2  w/n*1.15 .02 h  rz=(i%2-.5)*70
  cyl 0 0 h+.03  .05 .05 w*1.15  ry=90
  ball*x?.6 w*.6 0 h+.03  .1 .1 .1

desk: w=1.2:1.9 d=.6:.9 h=.7:.8 t=.03:.06 c=0..2 q=.3:.45
  box 0 0 h  w d t
  box*x?c==0 w*.47 0 h/2  .05 d*.95 h
  box?c>0 w*.5-q*.55 0 h*.55  q d*.92 h*.85
  box@(c>0)*3 w*.5-q*.55 -d*.47 h*(.25+.27*i)  q*.85 .03 h*.2
  box?c==2 -w*.5+q*.55 0 h*.55  q d*.92 h*.85
  box*y?c==1 -w*.46 d*.42 h/2  .06 .06 h
  box?.6 0 d*.4 h*.6  w*.92 .03 h*.6
  box?.35 w*u(-.3,.3) d*.2 h+.2  .5 .04 .35

door: w=.75:1.1 h=1.9:2.3 t=.04:.09 f=0..1 n=0..2
  box 0 0 h/2  w t h
  box*x?f w*.54 0 h/2  .08 t*2 h
  box?f 0 0 h+.04  w*1.16 t*2 .08
  ball*y w*.4 t+.03 h*.48  .07 .07 .07
  box*y@n 0 t*.6 h*(.27+.45*i)  w*.65 .02 h*.33

dresser: w=1:1.7 d=.4:.6 h=.7:1.15 n=2..4 m=2..3 l=.06:.18 q=0..1
  box 0 0 l+h/2  w d h
  box@n*m w*((i%m+.5)/m-.5) -d/2 l+h*((i//m)+.5)/n  w/m*.88 .04 h/n*.8
  ball@n*m w*((i%m+.5)/m-.5) -d/2-.04 l+h*((i//m)+.5)/n  .05 .05 .05
  box*xy w*.46 d*.43 l/2  .07 .07 l
  box?q*.5 0 d*.45 l+h+.3  w*.6 .04 .6

flower_pot: w=.4:.7 h=.35:.65 k=.55:.85 n=4..12 s=.25:.6
  lathe 0 0 h/2  w w h  r=0,k,1,1.08,1.08 z=0,0,.85,.85,1
  cyl 0 0 h*.85  w*.95 w*.95 .03
  ball@n u(-.2,.2) u(-.2,.2) h+s*u(.3,.9)  .13 .05 s*u(.5,1)  rx=u(-40,40) ry=u(-40,40)
  ball@n//3 u(-.18,.18) u(-.18,.18) h+s*u(.8,1.2)  .16 .16 .1

glass_box: w=.5:1.4 d=.4:1 h=.3:1.2 f=.02:.05 q=0..1
  box 0 0 h/2  w d h
  box*xy w/2 d/2 h/2  f*2 f*2 h
  box*y 0 d/2 h  w f*2 f*2
  box*x w/2 0 h  f*2 d f*2
  box?q 0 0 h*.02  w*1.04 d*1.04 .04

guitar: b=.36:.5 l=.45:.6 t=.07:.13 n=.5:.75 k=.68:.85 e=0..1
  cyl 0 0 b*.4  b*1.05 b*.85 t  rx=90
  cyl 0 0 b*1.1  b*k b*k t  rx=90
  box 0 0 b*.75  b*.62 t b*.5
  box 0 -t*.55 b*1.2+n/2  .06 .04 n+.2
  box 0 -t*.4 b*1.2+n+.18  .12 .04 .2  top=1.2
  cyl?1-e 0 -t*.52 b*.85  b*.3 b*.3 .01  rx=90
  box*x?e b*.33 0 b*1.45  .1 t .3  top=.3 lean=.3

keyboard: w=1.1:1.6 d=.35:.55 t=.03:.07 n=4..6 m=10..15 k=0:6 e=(.88*d)
  box 0 0 0  w d t  rx=k
  box@n*m w*.94*((i%m+.5)/m-.5) e*((i//m+.5)/n-.5) t*.7+e*((i//m+.5)/n-.5)*k/57  w/m*.75 d/n*.7 .03  top=.8 topy=.8

lamp: w=.3:.5 h=.7:1.6 s=.3:.65 k=.4:.85 p=.03:.07 c=0..2
  cyl 0 0 .03  w*.9 w*.9 .06  top=.8
  cyl?c<2 0 0 h/2  p p h
  lathe?c==2 0 0 h*.45  .3 .3 h*.9  r=.5,1,.7,.15 z=0,.3,.6,1
  lathe 0 0 h  s s s*u(.6,.95)  r=1,k*.95 z=0,1
  ball?c==1 0 0 h  .12 .12 .16

laptop: w=.9:1.2 d=.6:.85 t=.03:.07 a=5:40 k=(a/57.3)
  box 0 0 0  w d t
  box 0 d/2+d*.48*sin(k) d*.48*cos(k)  w .03 d*.95  rx=-a
  box@36 w*.85*((i%9+.5)/9-.5) d*(.02+.1*(i//9)) t*.6  w*.07 d*.07 .02
  box 0 -d*.28 t*.55  w*.25 d*.25 .01

mantel: w=1.2:1.8 h=.9:1.3 d=.2:.4 c=.14:.26 t=.08:.16 q=0..1
  box*x w/2-c/2 0 h/2  c d h
  box 0 0 h-.1  w d .22
  box 0 -d*.08 h+t/2  w*1.14 d*1.3 t
  box?q 0 d*.48 h/2  w*.95 .03 h
  box?.5 0 -d*.3 .03  w*1.1 d*1.9 .06
  box*x?.5 w/2-c/2 -d*.1 .08  c*1.25 d*1.2 .16

monitor: w=.8:1.3 h=.5:.8 t=.05:.14 s=.1:.28 b=.3:.5 c=0..2
  box 0 0 s+h/2  w t h  rx=u(-8,4)
  box 0 -t*.55 s+h/2  w*.9 .01 h*.86
  box?c==2 0 t*1.4 s+h/2  w*.6 t*2.5 h*.65  top=.8
  box 0 t*.5 s*.6  .12 .06 s*1.5
  box?c!=1 0 0 .02  b b*.7 .04
  cyl?c==1 0 0 .02  b b*.8 .04  top=.85

night_stand: w=.42:.65 d=.35:.55 h=.4:.7 l=.04:.25 n=1..3 c=0..1
  box 0 0 l+h/2  w d h
  box 0 0 l+h+.02  w*1.1 d*1.1 .04
  box@n 0 -d/2 l+h*(i+.5)/n  w*.85 .04 h/n*.8
  ball@n 0 -d/2-.04 l+h*(i+.5)/n  .06 .06 .06
  box*xy?c w*.44 d*.43 l/2  .05 .05 l
  box?1-c 0 0 l/2  w*.9 d*.9 l

person: h=1.5:1.9 w=.36:.5 a=4:75 l=2:14 b=(a/57.3)
  ball 0 0 h*.93  .19 .22 .26
  cyl 0 0 h*.85  .1 .1 .1
  box 0 0 h*.66  w*.75 .22 h*.34  top=1.25
  cyl*x w*.5+h*.16*sin(b) 0 h*.81-h*.16*cos(b)  .09 .09 h*.34  ry=180-a top=1.2
  cyl*x w*.18+h*.02 0 h*.25  .15 .17 h*.5  ry=-l*.5 top=1.25
  box*x w*.22+h*.03 -.06 .03  .1 .26 .08

piano: w=1.3:1.6 d=.5:.65 h=1:1.35 k=.62:.75 c=0..1
  box?1-c 0 d*.2 h/2  w d*.6 h
  box?1-c 0 -d*.22 k  w d*.55 .12
  box*x?1-c w*.46 -d*.4 k/2  .08 .08 k
  box?c 0 -.25 .8  w .9 .28
  cyl?c -w*.12 .3 .8  w*.76 1.2 .28
  box?c -w*.1 .2 1.2  w*.8 1.1 .03  ry=35
  cyl*x?c w*.4 -.5 .35  .1 .1 .7
  cyl?c 0 .7 .35  .1 .1 .7
  box@24 w*.9*((i+.5)/24-.5) -d*.3-c*.42 k+.07+c*.24  w*.028 d*.3 .03
  box?.3 0 -d*1.3-c*.5 .45  .7 .35 .08

plant: w=.25:.5 h=.2:.5 s=.6:1.4 n=12..30 a=20:55 f=.12:.25
  lathe 0 0 h/2  w w h  r=0,.7,1 z=0,0,1
  cyl?.7 0 0 h+s*.3  .05 .05 s*.6
  ball@n u(-.5,.5)*s*.6 u(-.5,.5)*s*.6 h+s*u(.25,1)  f .04 s*u(.25,.55)  rx=u(-a,a) ry=u(-a,a) rz=u(0,180)

radio: w=.8:1.3 h=.4:.75 d=.22:.4 c=0..1 n=2..5
  box 0 0 h/2  w d h  top=u(.9,1)
  cyl*x?c w*.28 -d*.52 h*.45  h*.6 h*.6 .05  rx=90
  cyl?1-c -w*.22 -d*.52 h*.5  h*.7 h*.7 .05  rx=90
  cyl@n w*(.1+.3*i/n) -d*.54 h*.75  .07 .07 .06  rx=90
  cyl?.7 w*.42 d*.3 h+.3  .02 .02 .8  ry=u(-50,30)
  box*x?.5 w*.4 0 h+.08  .04 .06 .18
  box?.5 0 0 h+.17  w*.84 .07 .04

range_hood: w=.7:1.1 d=.45:.65 h=.2:.45 c=.2:.34 t=.5:.9 q=0..2
  box?q<2 0 0 h/2  w d h  top=c/w topy=c/d
  box 0 (q==2)*d*.2 h+t/2  c c t
  box 0 0 -.04  w d .09
  box?q==2 0 0 .12  w d .14  topy=.5 leany=.2

sink: w=.6:1.1 d=.45:.65 h=.18:.3 k=.55:.8 c=0..2 p=.6:.85
  lathe 0 0 -h/2  w*k d*k h  r=0,.6,.9,1 z=0,0,.3,1
  box*x w*(1+k)/4 0 0  w*(1-k)/2 d .04
  box*y 0 d*(1+k)/4 0  w*k d*(1-k)/2 .04
  cyl 0 d*.42 .12  .05 .05 .24
  cyl 0 d*.3 .24  .04 .04 d*.3  rx=90
  cyl*x .14 d*.42 .05  .05 .05 .1
  cyl?c==1 0 d*.1 -h-p/2  .16 .16 p  top=1.3
  box?c==2 0 0 -h/2-.05  w*.96 d*.96 h+.1

sofa: w=1.4:2.4 d=.75:1 h=.36:.46 b=.3:.5 a=.12:.25 e=.12:.28 n=1..3
  box 0 0 h*.55  w d h*.8
  box@n w*.9*((i+.5)/n-.5) -d*.05 h+.04  w*.88/n d*.8 .12  top=.96 topy=.94
  box 0 d*.42 h+b*.5  w d*.2 b  rx=-6
  box*x w/2 0 (h+e)/2+.05  a d h+e  top=.9
  box*xy?.6 w*.46 d*.42 .03  .07 .07 .12

stairs: n=5..11 w=.7:1.2 r=.15:.2 g=.22:.3 c=0..1 q=0..1
  box@n 0 g*i r*(i+.5)  w g*1.02 r
  box@(1-c)*n 0 g*i+g*.5 r*i*.5  w g*.95 r*i+.01
  box*x?c w*.5 g*(n-1)/2 r*n*.5-.05  .05 .2 hypot(g,r)*n  rx=-57.3*atan2(g,r)
  box*x?q w*.5 g*(n-1)/2 r*n*.5+.85  .05 .05 hypot(g,r)*n  rx=-57.3*atan2(g,r)
  box*x@q*n w*.5 g*i r*i+.5  .03 .03 .8

stool: w=.32:.45 h=.45:.8 t=.03:.09 c=0..2 s=1:1.3
  cyl?c<2 0 0 h  w w t
  box?c==2 0 0 h  w w*.9 t
  cyl*xy?c!=1 w*.36*s w*.36*s*.9 h/2  .04 .04 h
  cyl?c==1 0 0 h/2  .06 .06 h
  cyl?c==1 0 0 .02  w w .04  top=.7
  ring?.5 0 0 h*.35  w*1.05*s w*1.05*s .04  tube=.06

table: w=.9:2 d=.6:1.2 h=.45:.8 t=.03:.07 l=.04:.1 c=0..3
  box?c<3 0 0 h  w d t
  cyl?c==3 0 0 h  w*.8 w*.8 t
  box*xy?c<2 w/2-l d/2-l h/2  l l h  top=u(.6,1)
  box*x?c==2 w*.36 0 h/2  .06 d*.75 h
  cyl?c==3 0 0 h/2  .12 .12 h
  cyl?c==3 0 0 .03  w*.4 w*.4 .06  top=.6
  box?c==1 0 0 h*.3  w*.85 d*.85 .03

tent: w=1.2:2 l=1.4:2.4 h=.9:1.5 c=0..2 k=0:.3
  box?c==0 0 0 h/2  w l h  top=k*.2 topy=u(.8,1)
  dome?c==1 0 0 h/2  w*1.1 l h
  box?c==2 0 0 h*.72  w*1.05 l*1.05 h*.55  top=k topy=u(.1,.8)
  box?c==2 0 0 h*.25  w l h*.5
  cyl*y?.5 0 l*.5 h/2  .04 .04 h
  box?.3 0 -l*.6 h*.3  w*.5 l*.3 h*.6  top=.1

toilet: w=.36:.46 d=.48:.6 h=.36:.44 t=.32:.45 q=0..1
  lathe 0 -d*.1 h/2  w d h  r=.6,.5,.65,1 z=0,.25,.55,1
  lathe 0 -d*.1 h*.75  w*.8 d*.8 h*.5  r=0,.5,1 z=.05,.1,1
  ring 0 -d*.1 h+.02  w d .05  tube=.2
  box 0 d*.42 h+t/2-.03  w*1.15 .2 t  top=1.06
  box 0 d*.42 h+t-.02  w*1.25 .22 .04
  ball?q 0 d*.2 h+.22  w*.95 .05 .46
  box 0 d*.3 h*.45  w*.55 d*.4 h*.9

tv_stand: w=1.1:1.8 d=.35:.55 h=.35:.65 n=2..3 m=0..3 c=0..1 l=0:.12
  box@n 0 0 l+h*i/(n-1)  w d .04
  box*x w*.48 0 l+h/2  .05 d h
  box@m w*((i+1)/(m+1)-.5) 0 l+h/2  .03 d*.95 h
  box?.5 0 d*.47 l+h/2  w .02 h
  box?c w*.3 -d*.48 l+h/2  w*.35 .03 h*.9
  box*xy w*.44 d*.4 l/2  .06 .06 l+.02
  box?.2 0 d*.1 l+h+.35  w*.7 .06 .55

vase: w=.35:.7 h=.7:1.3 a=.3:.8 b=.6:1 c=.22:.65 e=.3:.8 m=.25:.6
  lathe 0 0 h/2  w w h  r=0,a,(a+b)/2*1.05,b,(b+c)/2,c,e z=0,0,m/2,m,(m+.85)/2,.85,1
  cyl?.3 0 0 .02  w*a*1.1 w*a*1.1 .05
  ring*x?.2 w*b*.5 0 h*.7  w*.35 h*.3 .05  rx=90 tube=.2

wardrobe: w=.8:1.8 d=.45:.65 h=1.7:2.2 n=2..4 l=.03:.12 q=0..1
  box 0 0 l+h/2  w d h
  box@n w*((i+.5)/n-.5) -d/2 l+h*.52  w/n*.92 .04 h*.9
  cyl@n w*((i+.5)/n-.5)+w/n*.35*(1-2*(i%2)) -d/2-.04 l+h*.5  .03 .03 .2
  box?q 0 0 l+h+.03  w*1.08 d*1.1 .06
  box*xy w*.45 d*.42 l/2  .08 .08 l

xbox: w=.7:1 d=.6:.9 h=.18:.32 c=0..2 k=.8:1
  box?c<2 0 0 h/2  w d h  top=k topy=k
  box?c==2 0 0 w*.45  h d w*.9  topy=k
  box?c<2 w*.1 -d*.48 h*.45  w*.5 .06 h*.25
  cyl?c==0 0 0 h  .3 .3 .04
  box*x?.5 w*.25 -d*.9 .05  .22 .16 .09  top=.8 topy=.7
  box@(c==1)*5 w*(.2+.06*i) 0 h  .02 d*.7 .03
"""
